"""MapReduce on ranks: counts equal a Counter's, failed tasks are tried again, none hangs."""

from collections import Counter

import pytest

from helpers.mapreduce import TaskFailedError, mapreduce
from tests.mpi.runner import run_ranks

TEXTS = ["a rose is a rose", "is a rose", "", "red red red", "a"] * 3
RANKS = [1, 2, 4]


def words(text):
    for word in text.split():
        yield word, 1


def add_up(word, ones):
    return sum(ones)


def fail_sometimes(comm, times):
    """Each rank's mapper fails the first ``times`` times that it sees the second text."""
    seen = []

    def mapper(text):
        if text == "bad":
            seen.append(text)
            if len(seen) <= times:
                raise OSError("disk on fire")
        yield text, 1

    try:
        return mapreduce(["x", "bad", "y"], mapper, add_up, comm, attempts=2)
    except TaskFailedError as error:
        return str(error)


def everything():
    """Return what this rank makes of each task among 1, 2 and 4 of the ranks: they start once."""
    from mpi4py import MPI

    world, found = MPI.COMM_WORLD, {}
    for n in RANKS:
        comm = world.Split(0 if world.rank < n else MPI.UNDEFINED)
        if comm == MPI.COMM_NULL:
            continue
        found[n, "count"] = mapreduce(TEXTS if comm.rank == 0 else None, words, add_up, comm)
        found[n, "nothing"] = mapreduce([], words, add_up, comm)
        found[n, "again"] = fail_sometimes(comm, 0 if n > 2 else 1)
        found[n, "never"] = fail_sometimes(comm, 99)
    return found


@pytest.fixture(scope="module")
def found():
    return run_ranks(max(RANKS), everything)


@pytest.mark.mpi
@pytest.mark.parametrize("n", RANKS)
@pytest.mark.parametrize(
    ("task", "wanted"),
    [
        ("count", dict(Counter(" ".join(TEXTS).split()))),
        ("nothing", {}),
        ("again", {"x": 1, "bad": 1, "y": 1}),
        ("never", "split 1 failed 2 times, the last with OSError: disk on fire"),
    ],
)
def test_every_rank_has_the_answer(found, n, task, wanted):
    assert [mine[n, task] for mine in found[:n]] == [wanted] * n


def test_bad_attempts_are_named():
    with pytest.raises(ValueError, match="0"):
        mapreduce([], words, add_up, None, attempts=0)
