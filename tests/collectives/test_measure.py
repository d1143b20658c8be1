"""helpers.collectives.measure on ranks: what it times is there, and nobody is left waiting."""

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


def ping_pong_alone():
    with pytest.raises(ValueError, match="partner=1 of 1 ranks"):
        measure.ping_pong()


def test_ping_pong_needs_two():
    run_ranks(1, ping_pong_alone)


def test_addition():
    assert 0 < measure.addition(1 << 12, repeats=3) < 1e-6
