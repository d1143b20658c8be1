"""Ranks of a command: what they print, how they end, and that none is left (see tests/mpi)."""

from __future__ import annotations

import fcntl
import signal
import subprocess
import sys
import textwrap

import psutil
import pytest

from helpers.machine.mpi import run_ranks

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


EARLY = """
    import os, signal, subprocess, sys
    from helpers.machine import guard

    class Asked(subprocess.Popen):
        def __init__(self, *arguments):
            {before}
            super().__init__(*arguments)
            print(self.pid, flush=True)
            {after}

    subprocess.Popen = Asked
    sys.exit(guard.main(*sys.argv[1:]))
"""
ASK = "os.kill(os.getpid(), signal.SIGTERM)"


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_guard_that_is_asked_while_it_starts_its_command_leaves_no_process(tmp_path, moment):
    """On a busy machine a start that fails at once asks so early; the controller stayed."""
    source = EARLY.format(**({"before": "", "after": ""} | {moment: ASK}))
    # who reads the sleeper's output sees its end when the last process that has it is gone
    command = [sys.executable, "-c", textwrap.dedent(source)]
    with open(tmp_path / "lock", "w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)  # its owner lives
        done = subprocess.run(
            [*command, lock.name, str(tmp_path), "sleep", "30"],
            stdout=subprocess.PIPE,
            timeout=20,
        )
    assert done.returncode == 128 + signal.SIGTERM
    assert done.stdout.strip().isdigit()
