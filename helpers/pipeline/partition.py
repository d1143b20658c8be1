"""Which layers each stage gets: equal numbers, or by hand.

A partition is a list of ranges of layers, one for each stage, in order and without gaps.
"""

from __future__ import annotations

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


def _possible(layers: int, stages: int) -> None:
    if not 1 <= stages <= layers:
        raise ValueError(f"{layers} layers cannot be cut into {stages} stages")
