"""Which layers each stage gets: equal numbers, by hand, or the most even sum of unequal costs.

A partition is a list of ranges of layers, one for each stage, in order and without gaps.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence


def equal(layers: int, stages: int) -> list[range]:
    """Give each stage as many layers as the next, or one more.

    >>> equal(7, 3)
    [range(0, 3), range(3, 5), range(5, 7)]
    """
    _possible(layers, stages)
    size, more = divmod(layers, stages)
    return by_hand([size + (stage < more) for stage in range(stages)])


def by_hand(counts: Sequence[int]) -> list[range]:
    """Give each stage as many layers as you say.

    >>> by_hand([1, 3])
    [range(0, 1), range(1, 4)]
    """
    if not counts or min(counts) < 1:
        raise ValueError(f"by_hand({list(counts)}): each stage needs one layer or more")
    found, begin = [], 0
    for count in counts:
        found.append(range(begin, begin + count))
        begin += count
    return found


def balanced(costs: Sequence[float], stages: int) -> list[range]:
    """Cut so that the dearest stage is as cheap as can be, by dynamic programming.

    With many micro-batches, the pipeline's speed is that of its dearest stage. best(k, n) = min
    over c of max(best(k − 1, c), cost of layers c to n − 1) is its cost when the first n layers are
    cut into k.

    >>> balanced([5, 1, 1, 1, 1, 1], 2)
    [range(0, 1), range(1, 6)]
    """
    _possible(len(costs), stages)
    if wrong := [cost for cost in costs if not 0 <= cost < math.inf]:
        raise ValueError(f"balanced: costs are 0 or more; got {wrong[0]}")
    until = [0.0]
    for cost in costs:
        until.append(until[-1] + cost)
    n = len(costs)
    best = until[:]  # one stage
    cuts: list[list[int]] = []
    for k in range(2, stages + 1):
        now, cut = [float("inf")] * (n + 1), [0] * (n + 1)
        for end in range(k, n + 1):
            for c in range(k - 1, end):
                dearest = max(best[c], until[end] - until[c])
                if dearest < now[end]:
                    now[end], cut[end] = dearest, c
        best = now
        cuts.append(cut)
    ends = [n]
    for cut in reversed(cuts):
        ends.append(cut[ends[-1]])
    return [range(a, b) for a, b in itertools.pairwise((0, *reversed(ends)))]


def dearest(costs: Sequence[float], partition: Sequence[range]) -> float:
    """Return the cost of the dearest stage."""
    return max(sum(costs[layer] for layer in stage) for stage in partition)


def _possible(layers: int, stages: int) -> None:
    if not 1 <= stages <= layers:
        raise ValueError(f"{layers} layers cannot be cut into {stages} stages")
