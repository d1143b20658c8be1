"""tests.mpi.runner itself: results in rank order, failures that name the rank."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from helpers.paths import ROOT
from tests.cluster.ways import PART
from tests.mpi.runner import RankError, run_ranks

FORK = pytest.mark.parametrize("fork", [True, pytest.param(False, marks=PART)])


def sum_of_ranks(offset):
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    return comm.Get_rank(), comm.allreduce(comm.Get_rank() + offset)


def fails_on_one():
    from mpi4py import MPI

    if MPI.COMM_WORLD.Get_rank() == 1:
        raise RuntimeError("boom")
    MPI.COMM_WORLD.recv(source=1)


def kills_itself():
    os.kill(os.getpid(), signal.SIGKILL)


def sleeps():
    time.sleep(600)


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("n", "fork"),
    [(1, True), (5, True), *(pytest.param(n, False, marks=PART) for n in (1, 5))],
)
def test_results_come_in_rank_order(n, fork):
    expected = [(rank, sum(range(n)) + 10 * n) for rank in range(n)]
    assert run_ranks(n, sum_of_ranks, 10, fork=fork) == expected


@pytest.mark.mpi
@FORK
def test_a_rank_that_raises_is_named_while_the_others_wait(fork):
    with pytest.raises(RankError, match=r"rank 1 of 2 raised:(.|\n)*boom"):
        run_ranks(2, fails_on_one, fork=fork)


@pytest.mark.mpi
@FORK
def test_a_rank_that_is_killed_is_named(fork):
    with pytest.raises(RankError, match=r"rank [01] of 2 left no result"):
        run_ranks(2, kills_itself, fork=fork)


@pytest.mark.mpi
@FORK
def test_ranks_that_hang_end_at_the_limit(fork):
    with pytest.raises(RankError, match="did not end within 2 s"):
        run_ranks(2, sleeps, timeout=2, fork=fork)


@pytest.mark.mpi
@PART
def test_no_rank_outlives_a_killed_test(tmp_path):
    """The process that runs the test is killed while its ranks sleep."""
    code = "from tests.mpi.test_runner import sleeps\nfrom tests.mpi.runner import run_ranks\n"
    process = subprocess.Popen(
        [sys.executable, "-c", f"{code}run_ranks(2, sleeps, fork=False)"],
        cwd=ROOT,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    ranks = []
    while len(ranks) < 2 and time.monotonic() < deadline:
        below = psutil.Process(process.pid).children(recursive=True)
        ranks = [each for each in below if "tests.mpi.runner" in each.cmdline()[:3]]
        time.sleep(0.1)
    assert len(ranks) == 2
    process.kill()
    process.wait()
    _, alive = psutil.wait_procs(below, timeout=20)
    assert alive == []
