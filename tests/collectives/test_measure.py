"""helpers.collectives.measure on ranks: what it times is there, and nobody is left waiting."""

import itertools
from types import SimpleNamespace

import pytest

from helpers.collectives import cost, measure
from tests.mpi.runner import run_ranks

pytestmark = pytest.mark.mpi


def measured():
    samples = measure.ping_pong((16, 65_536), repeats=3)
    steps = measure.ring_steps((16, 65_536), repeats=3)
    some = measure.allreduce_times(["ring", "MPI_Allreduce"], (0, 4096), repeats=2, ranks=2)
    every = measure.allreduce_times(["tree"], (64,), repeats=2)
    return samples, steps, some, every


def test_messages_and_collectives_are_timed():
    results = run_ranks(3, measured)
    for rank, (samples, steps, some, every) in enumerate(results):
        assert (samples is None) == (some is None) == (rank == 2)
        assert [size for size, _ in steps] == [16, 65_536]
        assert every["tree"][0] > 0
        if rank < 2:
            assert all(time > 0 for _, time in samples)
            assert list(some) == ["ring", "MPI_Allreduce"]
            assert all(len(times) == 2 and min(times) > 0 for times in some.values())
    assert cost.fit(results[0][0]).bandwidth > 1e6
    # every rank has the slowest rank's time
    assert results[0][1] == results[1][1] == results[2][1]


def by_a_clock(best):
    """After two warm-ups or one, the repeats last 5, 1 and 3 seconds by a clock of the test's."""

    def clock(*lasts):
        ticks = itertools.accumulate(gap for last in lasts for gap in (0.0, last))
        measure.time = SimpleNamespace(perf_counter=lambda: next(ticks))

    clock(9, 9, 5, 1, 3)
    found = [(measure.ping_pong((4,), 3, best=best) or [(4, None)])[0][1]]
    clock(9, 5, 1, 3)
    found.append(measure.ring_steps((4,), 3, best=best)[0][1])
    clock(9, 5, 1, 3)
    return [*found, measure.allreduce_times(["ring"], [4], 3, best=best)["ring"][0]]


@pytest.mark.parametrize(("best", "seconds"), [(True, 1.0), (False, 3.0)])
def test_a_time_is_the_median_or_the_best_of_the_repeats(best, seconds):
    for found in run_ranks(2, by_a_clock, best):
        assert found == pytest.approx([seconds / 2, seconds / 5, seconds])


def ping_pong_alone():
    with pytest.raises(ValueError, match="partner=1 of 1 ranks"):
        measure.ping_pong()


def test_ping_pong_needs_two():
    run_ranks(1, ping_pong_alone)


def test_addition():
    assert 0 < measure.addition(1 << 12, repeats=3) < 1e-6
