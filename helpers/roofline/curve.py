"""Read a latency curve: where the caches end, how long a line is, how many ways a set has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def levels(sizes: Sequence[float], seconds: Sequence[float], count: int = 4) -> list[dict]:
    """Cut a latency curve into ``count`` plateaus; return each one's latency and where it ends.

    ``sizes``: working sets in bytes, increasing; ``seconds``: time of one load at each. The curve
    is first made non-decreasing (a larger working set is never faster; what says so is noise), then
    cut where a step function fits log(time) with the least squared error. Returns dicts with
    ``seconds`` (of the plateau's fast half), ``rise`` (by which factor the time grows within it:
    near 1 where it is flat, large where it is a piece of a slope) and ``capacity``: the working
    set, in bytes, between the last of this plateau and the first of the next; infinite for the
    last.
    Raises ValueError for fewer points than twice the plateaus.
    """
    n = len(sizes)
    if n != len(seconds) or n < 2 * count:
        raise ValueError(
            f"levels expects at least {2 * count} sizes with a time each; got {n} sizes and "
            f"{len(seconds)} times"
        )
    x = np.log(_increasing(np.asarray(seconds, dtype=float)))
    total, squares = np.concatenate([[0], x.cumsum()]), np.concatenate([[0], (x**2).cumsum()])

    def misfit(a: int, b: int) -> float:  # of points a to b − 1 from their mean
        return squares[b] - squares[a] - (total[b] - total[a]) ** 2 / (b - a)

    best = {(0, 0): (0.0, ())}
    for used in range(1, count + 1):
        for b in range(2 * used, n + 1):
            options = [
                (best[used - 1, a][0] + misfit(a, b), (*best[used - 1, a][1], b))
                for a in range(b - 1)
                if (used - 1, a) in best
            ]
            if options:
                best[used, b] = min(options)
    ends = best[count, n][1]
    found = []
    for a, b in zip((0, *ends[:-1]), ends, strict=True):
        # Random chases miss already below a cache's size: the rise within a plateau belongs to it.
        capacity = float(np.sqrt(sizes[b - 1] * sizes[b])) if b < n else float("inf")
        half = np.asarray(seconds[a:b])[: max(1, (b - a + 1) // 2)]
        rise = float(np.exp(x[b - 1] - x[a]))
        found.append({"seconds": float(np.median(half)), "capacity": capacity, "rise": rise})
    return found


def _increasing(values: np.ndarray) -> np.ndarray:
    """The least-squares non-decreasing fit in logarithms (pool adjacent violators)."""
    from scipy.optimize import isotonic_regression

    return np.exp(isotonic_regression(np.log(values)).x)


def first_jump(
    arguments: Sequence[int], seconds: Sequence[float], factor: float = 1.2
) -> int | None:
    """Return the first argument whose time is ``factor`` times the least so far, and stays there.

    "Stays": all that follow are at least as slow, within ``factor``. None where nothing jumps.
    """
    for i in range(1, len(seconds)):
        base = min(seconds[:i])
        if seconds[i] > factor * base and min(seconds[i:]) > factor * base:
            return arguments[i]
    return None


def first_full_step(
    arguments: Sequence[int], seconds: Sequence[float], least: float = 1.15
) -> int | None:
    """Return the first argument at which three quarters of the rise from the first are reached.

    Of a curve with one step: flat, then flat again at ``least`` times the first value or more. None
    where it does not rise so far, or falls back below a quarter of the rise afterwards.
    """
    low, high = seconds[0], min(seconds[-3:])  # what disturbs a sample makes it longer
    if high < least * low:
        return None
    for i, one in enumerate(seconds):
        if one >= low + 0.75 * (high - low):
            stays = min(seconds[i:]) > low + 0.25 * (high - low)
            return arguments[i] if stays else None
    return None
