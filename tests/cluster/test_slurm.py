"""Ranks under a real Slurm: one world, its queue, its ends, and that nothing is left.

`make test-all PART=slurm` runs them.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import time

import psutil
import pytest

from tests.cluster.lab import LOGIN, PATHS, Lab, why_not
from tests.cluster.ways import eventually

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.slurm,
    pytest.mark.part(of="slurm"),
    pytest.mark.timeout(300),
]
NOTEBOOKS = ["01_mpi_basics", "08_allreduce_animation"]
JOB = {"SBATCH_PARTITION": "spread", "SBATCH_ACCOUNT": "me", "SBATCH_TIMELIMIT": "40"}
MODULE = [sys.executable, "-m", "tests.cluster.on_login"]


@pytest.fixture(scope="module", autouse=True)
def possible():
    if why := why_not():
        pytest.skip(why)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    lab = Lab(tmp_path_factory.mktemp("lab"))
    yield lab
    lab.stop()
    shutil.rmtree(lab.folder)


def call(lab, *call: str, timeout: float = 120.0, python: str = sys.executable, **env) -> None:
    """Call a function of ``on_login`` on the login host."""
    work = lab.folder / "home" / "work"
    lab.run(LOGIN, python, *MODULE[1:], *call, timeout=timeout, cwd=work, env=env)


def ranks_in(lab) -> list[str]:
    """Return the command lines of ranks, of controllers, and of whatever starts them."""
    names = "helpers.cluster.rank.engine", "ipyparallel.controller", "mpiexec", "hydra_pmi_proxy"
    found = []
    for process in lab.processes():
        with contextlib.suppress(psutil.Error):
            line = " ".join(process.cmdline())
            found += [line] if any(name in line for name in names) else []
    return found


@contextlib.contextmanager
def kernel(lab, *call: str):
    """Run a function of ``on_login`` beside the test; yield the process that can be heard."""
    work = lab.folder / "home" / "work"
    process = lab.start(LOGIN, *MODULE, *call, cwd=work, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        if process.poll() is None:
            psutil.Process(process.pid).children()[0].kill()  # alone, not who watches over it
        process.wait(20)
        process.stdout.close()


def nothing_left(lab, seconds: float = 20.0) -> bool:
    """Wait until neither a job, a process nor a folder of a cluster is there."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        folders = list((lab.folder / "home" / "work").glob("ranks-*"))
        if not lab.jobs() and not folders and not ranks_in(lab):
            return True
        time.sleep(0.2)
    raise AssertionError(f"{lab.jobs()} {folders} {ranks_in(lab)}")


@pytest.mark.parametrize("mpi", ["none", "pmi2", "pmix"])
def test_ranks_are_one_world_whatever_mpi_slurm_defaults_to(tmp_path, mpi):
    lab = Lab(tmp_path, mpi)
    try:
        call(lab, "one_world")
        assert nothing_left(lab)
    finally:
        lab.stop()


def test_open_mpi_is_started_by_srun_through_pmix(lab, openmpi):
    path = os.pathsep.join([os.path.dirname(openmpi.python), PATHS])
    call(lab, "by_pmix", timeout=180, python=openmpi.python, **{**openmpi.variables, "PATH": path})


@pytest.mark.parametrize(
    "life", ["restarts", "waits", "ends", "refusals", "by_ssh", "ssh_refusals"]
)
def test_a_life_on_the_login_host(lab, life):
    """Each is told in on_login.py."""
    call(lab, life)
    assert nothing_left(lab)


def test_a_lost_node_is_named_and_not_asked_for_again(tmp_path):
    lab = Lab(tmp_path)
    try:
        with kernel(lab, "loses_a_node") as process:
            assert process.stdout.readline() == "now\n"
            lab.lose("host2")
            assert process.wait(90) == 0
    finally:
        lab.stop()


@pytest.mark.parametrize("kind", ["slurm", "ssh"])
def test_a_kernel_that_is_killed_leaves_nothing(lab, kind):
    with kernel(lab, "is_killed", kind) as process:
        assert process.stdout.readline() == "now\n"
        assert len(ranks_in(lab)) > 4
    assert nothing_left(lab)


def test_a_kernel_that_is_killed_in_the_queue_leaves_nothing(lab):
    block = ["sbatch", "--parsable", "--exclusive", "--nodes=3", "--output=/dev/null"]
    number = lab.run(LOGIN, *block, "--wrap=sleep 1000").strip()
    with kernel(lab, "is_killed", "slurm"):
        assert eventually(lambda: len(lab.jobs()) == 2, 30)
        time.sleep(1)  # who is to cancel the job must know its number
    assert eventually(lambda: len(lab.jobs()) == 1, 10)
    lab.run(LOGIN, "scancel", number)
    assert nothing_left(lab)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_unchanged_on_slurms_nodes(lab, name):
    call(lab, "notebook", name, timeout=580, COURSE_RANKS="slurm", **JOB)
