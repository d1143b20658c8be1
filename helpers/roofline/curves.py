"""Read what was measured: where a cache ends, where a curve steps, which rates cannot be true."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SLACK = 0.8  # a rate below this part of what it must at least be is taken for a disturbed one


def implausible(bandwidths: list[dict]) -> list[dict]:
    """Return the bandwidths that are too low to be true.

    A cache gives at least what the one behind it gives (in the kind and threads of the row),
    several threads together at least what one alone does, and memory that is only read at least
    what it gives while it is copied.
    """
    rate = {(b["level"], b["kind"], b["threads"]): b["rate"] for b in bandwidths}
    levels = sorted({b["level"] for b in bandwidths})  # L1, L2, ..., memory
    found = []
    for one in bandwidths:
        kind, threads = one["kind"], one["threads"]
        behind = levels[levels.index(one["level"]) + 1 :]
        least = [rate.get((level, kind, threads), 0) for level in behind]
        least.append(rate.get((one["level"], kind, 1), 0))
        if (one["level"], kind) == ("memory", "read"):
            least.append(rate.get(("memory", "copy", threads), 0))
        if one["rate"] < SLACK * max(least):
            found.append(one)
    return found


def implausible_peaks(peaks: list[dict]) -> list[dict]:
    """Return the peaks that are too low to be true.

    Several threads do at least what one alone does, and single precision at least what double does:
    a register holds more of its numbers. A wider register is no rule: it may lower the clock.
    """
    flops = {(p["isa"], p["dtype"], p["threads"]): p["flops"] for p in peaks}
    found = []
    for one in peaks:
        alone = flops.get((one["isa"], one["dtype"], 1), 0)
        double = flops.get((one["isa"], "float64", one["threads"]), 0)
        if one["flops"] < SLACK * max(alone, double if one["dtype"] == "float32" else 0):
            found.append(one)
    return found


def ends(found: list[dict], reported: list[dict]) -> list[float]:
    """Return where each cache ends: as the curve has it, unless the system contradicts it."""
    read = [one["capacity"] for one in found[:-1]]
    if len(read) != len(reported):
        return [one["size"] for one in reported] or read
    kept: list[float] = []
    for end, one in zip(read, reported, strict=True):
        before = kept[-1] if kept else 0
        kept.append(
            end if 3 * before < end and one["size"] / 8 <= end <= 2 * one["size"] else one["size"]
        )
    return kept


def levels(sizes: Sequence[float], seconds: Sequence[float], count: int) -> list[dict]:
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
        half = np.sort(seconds[a:b])[: max(1, (b - a + 1) // 2)]
        rise = float(np.exp(x[b - 1] - x[a]))
        found.append({"seconds": float(np.median(half)), "capacity": capacity, "rise": rise})
    return found


def _increasing(values: np.ndarray) -> np.ndarray:
    """The least-squares non-decreasing fit in logarithms (pool adjacent violators)."""
    from scipy.optimize import isotonic_regression

    return np.exp(isotonic_regression(np.log(values)).x)


def first_jump(arguments: Sequence[int], seconds: Sequence[float]) -> int | None:
    """Return the first argument whose time is 1.8 times the least so far, and stays there.

    "Stays": all that follow are at least as slow, within that factor. None where nothing jumps.
    """
    for i in range(1, len(seconds)):
        base = min(seconds[:i])
        if seconds[i] > 1.8 * base and min(seconds[i:]) > 1.8 * base:
            return arguments[i]
    return None


def first_full_step(arguments: Sequence[int], seconds: Sequence[float]) -> int | None:
    """Return the first argument at which three quarters of the rise from the first are reached.

    Of a curve with one step: flat, then flat again at 1.15 times the first value or more. None
    where it does not rise so far, or falls back below a quarter of the rise afterwards.
    """
    low, high = seconds[0], min(seconds[-3:])  # what disturbs a sample makes it longer
    if high < 1.15 * low:
        return None
    for i, one in enumerate(seconds):
        if one >= low + 0.75 * (high - low):
            stays = min(seconds[i:]) > low + 0.25 * (high - low)
            return arguments[i] if stays else None
    return None
