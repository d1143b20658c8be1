"""MapReduce on ranks: counts equal a Counter's, failed tasks are tried again, none hangs."""

from collections import Counter

import pytest

from helpers.mapreduce import TaskFailedError, mapreduce
from tests.mpi.runner import run_ranks

TEXTS = ["a rose is a rose", "is a rose", "", "red red red", "a"] * 3
RANKS = [1, 2, 3, 4, 5]


def words(text):
    for word in text.split():
        yield word, 1


def add_up(word, ones):
    return sum(ones)


def count(texts):
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    return mapreduce(texts if comm.rank == 0 else None, words, add_up, comm)


@pytest.mark.mpi
@pytest.mark.parametrize("n", RANKS)
def test_word_count_on_every_rank(n):
    want = dict(Counter(" ".join(TEXTS).split()))
    assert run_ranks(n, count, TEXTS) == [want] * n


@pytest.mark.mpi
def test_no_splits_give_no_words():
    assert run_ranks(3, count, []) == [{}] * 3


def fail_sometimes(times):
    """Each rank's mapper fails the first ``times`` times that it sees the third text."""
    from mpi4py import MPI

    comm, seen = MPI.COMM_WORLD, []

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


@pytest.mark.mpi
@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_failed_split_is_tried_again(n):
    results = run_ranks(n, fail_sometimes, 0 if n > 2 else 1)
    assert results == [{"x": 1, "bad": 1, "y": 1}] * n


@pytest.mark.mpi
@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_split_that_always_fails_ends_all_ranks_with_its_error(n):
    for message in run_ranks(n, fail_sometimes, 99):
        assert message == "split 1 failed 2 times, the last with OSError: disk on fire"


def test_bad_attempts_are_named():
    with pytest.raises(ValueError, match="0"):
        mapreduce([], words, add_up, None, attempts=0)
