"""tests.mpi.runner itself: results in rank order, failures that name the rank."""

import os
import signal
import time

import pytest

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
    where = "most recent call first" if fork else ""  # mpiexec may need all this time to start
    with pytest.raises(RankError, match=f"(?s)did not end within 4 s.*{where}"):
        run_ranks(2, sleeps, timeout=4, fork=fork)
