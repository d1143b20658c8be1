"""What stands in a roofline and below it in words: names, figures, its legend, its description."""

from __future__ import annotations

import html
from collections.abc import Mapping

from helpers.roofline import ABOVE


def legend(top: float, peaks, data, like) -> str:
    """What circles, lines and frames mean."""
    said = [*_by_threads(top, peaks, data, like), *_faults(data)]
    return f"<small>{' '.join(said)}</small>" if said else ""


def _faults(data) -> list[str]:
    """What is said of kernels above their roof."""
    above = [d for d in data if share_of(d) > ABOVE]
    if not above:
        return []
    names = html.escape(", ".join(d["name"] for d in above))
    twice = ", also when both were measured again" if all(d["twice"] for d in above) else ""
    return [
        f"<b>In a frame: above its roof{twice} ({names}).</b> This is a fault of measuring, not a "
        "fast kernel: the roof came out too low, or a cache delivered bytes that we count as "
        "memory's."
    ]


def _by_threads(top: float, peaks, data, like) -> list[str]:
    """What circles and lines mean, where they differ by threads."""
    hollow = [d["threads"] for d in data if d["top"] < top]
    full = threads_of(next(name for name, rate in peaks.items() if rate == top))
    if not hollow:
        alone = data and all(d["threads"] == full for d in data)
        return [f"All circles: {full}{', as the solid lines' * (len(peaks) > 1)}."] * bool(alone)
    said = [f"Filled circle: {full}, as the solid lines."] if len(hollow) < len(data) else []
    said.append(f"Hollow circle: {', '.join(set(hollow))}, as the dashed lines.")
    if any(dash is None for dash in like.values()):
        said.append("Dotted and dash-dotted lines: caches.")
    return said


def threads_of(name: str) -> str:
    """Return "2 threads" of a ceiling's name that ends in ", 2 threads", else the name."""
    return name.rpartition(", ")[2]


def told(peaks: Mapping[str, float], bandwidths: Mapping[str, float], data) -> str:
    """The picture in words, for those who do not see it: its ceilings, and where each kernel is."""
    ceilings = [f"{name} {flops(rate)}" for name, rate in peaks.items()]
    ceilings += [f"{name} {rate / 1e9:.0f} GB/s" for name, rate in bandwidths.items()]
    kernels = [f"{d['name']} {d['p'] / 1e9:.3g} Gflop/s at {d['i']:.3g} flop/byte" for d in data]
    return f"roofline. Ceilings: {', '.join(ceilings)}. Kernels: {', '.join(kernels) or 'none'}"


def own_roof(ceilings: Mapping[str, float], threads: int) -> float:
    """Return the ceiling that a kernel of so many threads is held against.

    It is the one whose name ends in ``", 2 threads"`` for as many, else that of ``"memory"``, or
    the highest peak.
    """
    words = f", {threads} thread" + "s" * (threads > 1)
    own = [rate for name, rate in ceilings.items() if name.endswith(words)]
    memory = [rate for name, rate in ceilings.items() if name.startswith("memory")]
    return min(own) if own else max(memory or ceilings.values())


def tip_of(d: Mapping) -> str:
    """Return what shows under the pointer: intensity, performance, share of its own roof."""
    share = share_of(d)
    above = ", above it: a cache served the data, or the roof was measured too low"
    return (
        f"{d['name']}: {d['i']:.3g} flop/byte, {d['p'] / 1e9:.3g} Gflop/s, "
        f"{d['b'] / d['s'] / 1e9:.3g} GB/s, {100 * share:.0f} % of its roof"
        f"{above if share > ABOVE else ''}"
    )


def share_of(d: Mapping) -> float:
    """Return the part of its own roof that a kernel reached."""
    return d["p"] / min(d["top"], d["memory"] * d["i"])


def named(name: str, rate: float) -> str:
    """Return what is written along a roof: its name, and its bandwidth with the unit."""
    return f"{name}: " + (f"{rate / 1e12:.1f} TB/s" if rate >= 1e12 else f"{rate / 1e9:.0f} GB/s")


def flops(rate: float) -> str:
    """Return a peak with its unit."""
    return f"{rate / 1e12:.0f} Tflop/s" if rate >= 1e13 else f"{rate / 1e9:.0f} Gflop/s"
