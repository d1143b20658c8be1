"""Ranks of a command: what they print, how they end, and that none is left (see tests/mpi)."""

import sys

import psutil
import pytest

from helpers.machine.launcher import run_ranks
from helpers.machine.mpi import NoMpiexecError

pytestmark = pytest.mark.mpi


def python(code):
    return [sys.executable, "-c", code]


def test_output_code_and_errors_apart():
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    done = run_ranks(2, python(code), timeout=60)
    assert done.code == 3
    assert sorted(done.output.split()) == ["err", "err", "out", "out"]
    apart = run_ranks(2, python(code), timeout=60, apart=True)
    assert (apart.output.split(), apart.errors.split()) == (["out"] * 2, ["err"] * 2)


def test_the_environment_of_the_ranks(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    names = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "PYTHONUNBUFFERED", "MINE")
    command = python(f"import os; print(os.getcwd(), *map(os.environ.get, {names}))")
    options = {"timeout": 60, "cwd": tmp_path, "env": {"MINE": "x"}}
    assert run_ranks(1, command, **options).output.split() == [str(tmp_path), "1", "1", "None", "x"]
    kept = run_ranks(1, command, threads=None, **options).output.split()
    assert kept[1] == "7"


def test_at_the_limit_the_output_so_far_is_kept_and_every_rank_ends(tmp_path):
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    done = run_ranks(2, python(code), timeout=5, folder=tmp_path)
    assert done.code is None
    pids = [int(pid) for pid in done.output.split()]
    assert len(pids) == 2
    ranks = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
    assert psutil.wait_procs(ranks, timeout=20)[1] == []


def test_no_mpiexec_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoMpiexecError, match="no mpiexec beside"):
        run_ranks(1, ["true"], timeout=1)
