"""A cell of the notebook as a script under mpiexec."""

import os
import subprocess
import sys
import time

import pytest

from helpers.cluster import Slurm
from helpers.cluster.script import as_script, run_script
from helpers.paths import ROOT
from tests.cluster.ways import WAYS

CELL = '%%ranks --timeout 5\nprint(f"rank {rank} of {size}", flush=True)'


def test_the_last_ranks_cell_becomes_a_script():
    history = ["", CELL, "%%ranks\nother()", "as_script()"]
    assert as_script(history=history).endswith("\n\nother()\n")
    source = as_script("rank {rank}", history)
    assert source.endswith('print(f"rank {rank} of {size}", flush=True)\n')
    assert "%%ranks" not in source
    compile(source, "script.py", "exec")


def test_a_missing_cell_is_named():
    with pytest.raises(ValueError, match=r"2 cells.*'zebra'"):
        as_script("zebra", [CELL, "x = 1"])


BOTH = pytest.mark.parametrize("start", WAYS)


@pytest.mark.mpi
@BOTH
@pytest.mark.parametrize("n", [1, 3])
def test_the_script_prints_what_the_cell_printed(n, start):
    lines = sorted(run_script(as_script(history=[CELL]), n, start=start).splitlines())
    assert lines == [f"rank {rank} of {n}" for rank in range(n)]


@pytest.mark.mpi
@BOTH
def test_a_failing_script_is_reported_with_its_output(start):
    with pytest.raises(RuntimeError, match=r"(?s)code [1-9].*ZeroDivisionError"):
        run_script("1 / 0", n=2, start=start)


def test_bad_numbers_of_ranks_and_launchers():
    with pytest.raises(ValueError, match="0"):
        run_script("", n=0)
    with pytest.raises(ValueError, match="Slurm"):
        run_script("", start=Slurm())


@pytest.mark.mpi
@pytest.mark.skipif(sys.platform != "linux", reason="ranks are forked on Linux")
def test_one_forked_rank_that_fails_ends_the_others():
    source = "from mpi4py import MPI\nMPI.COMM_WORLD.Get_rank() == 1 and exit(5)\n"
    source += "import time\ntime.sleep(600)\n"
    with pytest.raises(RuntimeError, match="code 5"):
        run_script(source, n=2)


@pytest.mark.mpi
@BOTH
def test_a_script_that_never_ends_is_ended_with_all_its_ranks(tmp_path, start):
    source = (
        "import os, time\nfrom mpi4py import MPI\n"
        f"open(r'{tmp_path}/' + str(os.getpid()), 'w').close()\ntime.sleep(600)\n"
    )
    with pytest.raises(RuntimeError, match="did not end within 5 s"):
        run_script(source, n=2, timeout=5, start=start)
    pids = [int(path.name) for path in tmp_path.iterdir()]
    assert len(pids) == 2
    deadline = time.monotonic() + 10
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, pids))


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.mpi
@pytest.mark.skipif(sys.platform != "linux", reason="ranks are forked on Linux")
def test_a_kernel_that_is_killed_while_it_tidies_up_leaves_no_folder(tmp_path):
    """The blow falls where the kernel begins to remove the job's folder."""
    code = (
        "import os, shutil\n"
        "from helpers.cluster.script import run_script\n"
        "shutil.rmtree = lambda *args, **options: os.kill(os.getpid(), 9)\n"
        "run_script('print(1)', n=2)"
    )
    kernel = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert kernel.returncode == -9
    deadline = time.monotonic() + 10
    while list(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert list(tmp_path.iterdir()) == []
