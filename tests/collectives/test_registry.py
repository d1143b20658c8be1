"""An algorithm in one module is everywhere: in calls, costs, schedules, tables and pictures."""

import html
import importlib
import json
import re
import sys

import numpy as np
import pytest

from helpers import collectives
from helpers.collectives import cost, measure, recording, registry, schedule
from helpers.collectives import halving as picture_of_halving
from helpers.collectives.parts import FIRST_TAG, hosts_of
from helpers.collectives.schedule import dry_run
from helpers.plots.animation import animate
from tests.cluster.ways import PART
from tests.mpi.runner import run_ranks


@pytest.fixture
def halving():
    """Import the module that enters an algorithm; forget both afterwards."""
    importlib.import_module("tests.collectives.halving")
    yield "halving"
    del registry.ALGORITHMS["halving"], sys.modules["tests.collectives.halving"]


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_parts_that_travel_joined_are_all_counted(halving, ranks, pieces):
    assert list(collectives.ALGORITHMS)[-1] == halving
    plan = schedule.model(halving, ranks, pieces)
    assert plan.steps == cost.steps(halving, ranks, pieces) == 2 * (ranks.bit_length() - 1)
    assert plan.sent(1200) == [cost.sent(halving, ranks) * 1200] * ranks
    assert plan.states()[-1] == [[frozenset(range(ranks))] * ranks * pieces] * ranks


def test_a_message_that_is_not_of_whole_parts_is_refused():
    def performed(*calls):
        def function(comm):
            for tag, numbers in calls:
                message, other = np.ones(numbers, np.float32), 1 - comm.Get_rank()
                comm.Sendrecv(message, other, FIRST_TAG + tag, message, other, FIRST_TAG + tag)

        return dry_run(function, 2)

    assert schedule.from_trace("ring", performed((0, 4))).sent(100) == [100, 100]
    for tag, numbers in ((0, 1), (0, 0), (1, 4), (2, 2)):
        words = rf"got {4 * numbers} bytes from rank . under tag {FIRST_TAG + tag}"
        with pytest.raises(ValueError, match=words):
            schedule.from_trace("ring", performed((tag, numbers)))


def test_it_is_in_the_animation_with_its_title(halving):
    page = animate(schedule.model(halving, 2)).data
    values = json.loads(html.unescape(re.search(r"data-values=(['\"])(.*?)\1", page)[2]))
    assert values["titles"] == {halving: "allreduce: halving and doubling"}
    (shown,) = values["schedules"]
    assert shown["steps"] == [[[0, 1, 1], [1, 0, 0]], [[0, 1, 0], [1, 0, 1]]]


def test_it_is_known_by_name_until_it_is_forgotten():
    with pytest.raises(ValueError, match=r"'ring', .*; got 'star'"):
        schedule.model("star", 4)
    with pytest.raises(ValueError, match=r"not taken.*got 'ring'"):
        registry.register(registry.ALGORITHMS["ring"])
    with pytest.raises(ValueError, match=r"not taken.*got 'gather'"):
        registry.register(registry.COLLECTIVES["gather"])


def called_by_name(name, K):
    """On every rank: reduce, count, trace and time by the new name."""
    from mpi4py import MPI

    importlib.import_module(f"tests.collectives.{name}")
    comm = MPI.COMM_WORLD
    mine = np.arange(6.0).reshape(2, 3) * (comm.rank + 1)
    total = collectives.allreduce(mine, comm, algorithm=name)
    assert np.array_equal(total, comm.allreduce(mine))
    assert measure.allreduce_times([name], (64,), repeats=1)[name][0] > 0
    assert hosts_of(comm) == (0,) * comm.size
    return recording.sent([name], K)[name], recording.record([name], (comm.size,))


@pytest.mark.mpi
@pytest.mark.parametrize("n", [4, *(pytest.param(n, marks=PART) for n in (1, 2))])
def test_it_runs_is_counted_traced_and_timed(halving, n):
    counts, logs = zip(*run_ranks(n, called_by_name, halving, 1200), strict=True)
    assert set(counts) == {(2 * (n.bit_length() - 1), 2400 * (n - 1) // n)}
    (traced,) = recording.schedules(logs)
    assert traced.transfers == schedule.model(halving, n).transfers


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_the_picture_of_halving_and_doubling_is_that_of_its_messages(halving, ranks):
    assert picture_of_halving.schedule(ranks) == schedule.model(halving, ranks)


@pytest.mark.parametrize("ranks", [0, 3, -4])
def test_halving_other_numbers_of_ranks_is_refused(ranks):
    with pytest.raises(ValueError, match=f"power of two ranks; got {ranks}"):
        picture_of_halving.schedule(ranks)
