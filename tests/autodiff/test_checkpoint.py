"""Schedules for a chain: memory and time by count, optimal by exhaustion, run on real arrays."""

import tracemalloc
from functools import cache

import numpy as np
import pytest

from helpers.autodiff.checkpoint import (
    Action,
    Cost,
    cost,
    fewest_forwards,
    in_segments,
    keep_all,
    optimal,
    run_chain,
)


@cache
def exhaustive(steps, units):
    """The recurrence itself: try each place (Griewank and Walther 2000)."""
    if steps == 1:
        return 0
    if units == 1:
        return steps * (steps - 1) // 2
    return min(m + exhaustive(steps - m, units - 1) + exhaustive(m, units) for m in range(1, steps))


@pytest.mark.parametrize("units", [1, 2, 3, 4, 7, 40])
@pytest.mark.parametrize("steps", [1, 2, 3, 5, 10, 21, 34])
def test_optimal_is_optimal(steps, units):
    takes = cost(steps, optimal(steps, units))
    assert takes.forwards == fewest_forwards(steps, units) == exhaustive(steps, units)
    assert takes.peak <= units + 2


@pytest.mark.parametrize("steps", [1, 2, 5, 16, 17, 100, 9973])
def test_segments_take_two_roots_and_less_than_two_passes(steps):
    takes = cost(steps, in_segments(steps))
    assert takes.peak <= 2 * steps**0.5 + 2
    assert takes.forwards < 2 * steps
    assert cost(steps, keep_all(steps)) == Cost(steps, steps - 1)


def test_the_sources_ten_thousand_convolutions():
    """15 624.37 MiB for 10 000 results; 173.03 MiB is 110: fewer than one level of √n needs.

    Segments of 100 hold 199 results, 311 MiB. The optimal placement fits the source's memory, with
    108 units, for less than 1.4 passes forward beyond the first.
    """
    unit = 15_624.37 / 10_000  # MiB
    segments, best = cost(10_000, in_segments(10_000)), cost(10_000, optimal(10_000, 108))
    assert segments == Cost(199, 19_800)
    assert round(segments.peak * unit) == 311
    assert best.peak * unit <= 173.03
    assert 2.3 < best.forwards / 10_000 < 2.4


def schedules(steps):
    return {
        "all": keep_all(steps),
        "segments": in_segments(steps),
        "three": optimal(steps, 3),
        "one": optimal(steps, 1),
    }


@pytest.mark.parametrize("name", schedules(30))
def test_executed_gradients_are_the_same_and_memory_is_as_counted(name):
    """A chain of tanh(x w), of 100 kB a result: same bits; the traced peak is the counted one."""
    schedule, takes = schedules(30)[name], cost(30, schedules(30)[name])
    random = np.random.default_rng(0)
    w, x, g = random.normal(size=30), random.normal(size=12_500), random.normal(size=12_500)

    def forward(i, x):
        y = x * w[i - 1]
        return np.tanh(y, out=y)

    def backward(i, x, g):
        return g * w[i - 1] * (1 - np.tanh(x * w[i - 1]) ** 2)

    expected = run_chain(keep_all(30), x, g, forward, backward)
    tracemalloc.start()
    got = run_chain(schedule, x, g, forward, backward)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_array_equal(got, expected)
    # x₀ is the caller's; at most g, the new g and backward's own three come on top
    assert (takes.peak - 1) * x.nbytes <= peak <= (takes.peak + 4) * x.nbytes + 50_000


def test_a_schedule_that_reads_what_is_gone_is_refused():
    with pytest.raises(ValueError, match=r"expects x_1; got \[0\]"):
        cost(2, [Action("backward", 2)])
    with pytest.raises(ValueError, match="expects backward 2 next"):
        cost(2, [Action("forward", 1), Action("backward", 1)])
    with pytest.raises(ValueError, match="to go back to 1; got to 3"):
        cost(2, [Action("forward", 1)])
    with pytest.raises(ValueError, match="1 to 4 segments; got 5"):
        in_segments(4, 5)
    with pytest.raises(ValueError, match="1 unit or more; got 0"):
        optimal(4, 0)
