"""Which of the measured ceilings cannot be: what disturbs a rate only ever makes it lower."""

from __future__ import annotations

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
