"""Two levels: what goes between hosts, what it costs, and the sum, however ranks are placed."""

import numpy as np
import pytest

from helpers.collectives import ALGORITHMS, cost, schedule
from helpers.collectives.cost import Link
from helpers.collectives.registry import added
from helpers.plots.animation import animate
from tests.mpi.runner import run_ranks

FAST, SLOW = Link("fast", 1, 1e-2, 1e-3), Link("slow", 1000, 1.0, 1e-3)
LAYOUTS = [
    (0, 0, 1, 1, 2, 2),
    (0, 1, 2, 0, 1, 2),  # cyclic
    (0, 0, 0, 0, 1, 1, 1, 1),
    (0, 1, 2),
    (0, 0, 0),
    (0,),
    (0, 0, 1),  # uneven: one ring
    (0, 1, 0, 2, 1, 1),
]


@pytest.mark.parametrize("where", LAYOUTS)
@pytest.mark.parametrize("pieces", [1, 3])
def test_every_rank_ends_with_every_contribution_at_the_cost_that_is_told(where, pieces):
    ranks = len(where)
    plan = schedule.model("two_level", ranks, pieces, hosts=where)
    assert plan.states()[-1] == [[frozenset(range(ranks))] * (ranks * pieces)] * ranks
    assert plan.steps == cost.path("two_level", ranks, pieces, where).steps
    size = 100 * ranks * pieces
    assert plan.sent(size) == [round(size * cost.sent("two_level", ranks, where))] * ranks
    assert "two levels" in animate(plan).data


@pytest.mark.parametrize("where", LAYOUTS[:4])
def test_through_a_hosts_link_goes_no_more_than_must(where):
    ranks, hosts = len(where), max(where) + 1
    plan = schedule.model("two_level", ranks, hosts=where)
    for host in range(hosts):
        leaving = [t for t in plan.transfers if where[t.source] == host != where[t.dest]]
        arriving = [t for t in plan.transfers if where[t.dest] == host != where[t.source]]
        parts = 2 * (hosts - 1) / hosts * ranks  # of K/N each
        assert len(leaving) == len(arriving) == parts
    between = cost.path("two_level", ranks, hosts=where).between
    assert between.sent == pytest.approx(2 * (hosts - 1) / hosts)


def test_its_cost_is_that_of_a_machine_of_two_levels():
    six, two = (0, 0, 1, 1, 2, 2), cost.Machine(3, 2, FAST, SLOW).two_level()
    way = cost.path("two_level", 6, hosts=six)
    between = way.between.sent * SLOW.beta + way.between.added * SLOW.gamma
    inside = way.sent * FAST.beta + way.added * FAST.gamma
    assert inside + between == pytest.approx(two.per_byte)
    # the model's ring inside a host sends one message a step; ours one for each host's chunk
    fixed = way.messages * FAST.alpha + way.between.messages * SLOW.alpha
    assert fixed - two.fixed == pytest.approx(2 * (3 - 1) * FAST.alpha)
    assert cost.allreduce("two_level", 4, FAST) == cost.allreduce("ring", 4, FAST)


def test_hosts_for_other_ranks_are_refused():
    with pytest.raises(ValueError, match=r"each of 4 ranks; got hosts=\(0, 1\)"):
        schedule.model("two_level", 4, hosts=(0, 1))


def test_an_uneven_layout_is_one_ring_between_hosts():
    assert cost.path("two_level", 3, hosts=(0, 0, 1)).between == cost.path("ring", 3)


def sums(layouts, sizes):
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    for where in layouts:
        for size in sizes:
            mine = np.random.default_rng(comm.rank).integers(-99, 99, size).astype(np.float64)
            expected = comm.allreduce(mine)
            for pieces in (1, 2):
                work = mine.copy()
                ALGORITHMS["two_level"].start(work, comm, added, pieces, where)
                assert (work == expected).all(), (where, size, pieces)


@pytest.mark.mpi
def test_the_sum_of_arrays_of_any_size():
    layouts = [(0, 0, 1, 1), (0, 1, 0, 1), (0, 1, 2, 3), (0, 0, 0, 1)]
    run_ranks(4, sums, layouts, (0, 1, 3, 7, 1000, 100_001))
