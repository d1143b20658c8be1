"""This machine's ceilings, and kernels under them: the roofline model.

P = min(π, β · I), with π the peak in flop/s, β a bandwidth in bytes/s and I the arithmetic
intensity in flop/byte (Williams, Waterman & Patterson 2009, CACM 52(4)).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from helpers.roofline.ceilings import Ceilings

__all__ = ["ABOVE", "Point", "place", "under_roof"]

ABOVE = 1.05  # times its roof: what reaches more is no fast kernel, but a fault of a measurement
TRIES = 3  # to find a roof that is not below a kernel


@dataclass(frozen=True)
class Point:
    """A kernel that ran.

    Parameters
    ----------
    flops
        Operations, counted.
    bytes
        The traffic that the algorithm cannot avoid with an empty cache: each input read once, each
        output written once; write-allocate is not counted.
    seconds
        Of the best of its runs.
    threads
        How many worked on it: it is held against the roof of as many.
    twice
        Whether it stayed above its roof when both were measured again.
    """

    name: str
    flops: float
    bytes: float
    seconds: float
    threads: int = 1
    twice: bool = False

    @property
    def intensity(self) -> float:
        """flop/byte."""
        return self.flops / self.bytes

    @property
    def performance(self) -> float:
        """flop/s."""
        return self.flops / self.seconds

    @property
    def bandwidth(self) -> float:
        """Bytes/s that the kernel would need if every counted byte came from memory."""
        return self.bytes / self.seconds

    def share(self, peak: float, bandwidth: float) -> float:
        """Fraction of the attainable performance that was reached.

        Above 1 where the roof is not the kernel's: fewer threads, or memory's where a cache served.
        """
        return self.performance / min(peak, bandwidth * self.intensity)


def place(
    name: str,
    kernel: Callable[[], object],
    flops: float,
    bytes: float,
    threads: int = 1,
    *,
    time_limit: float,
) -> Point:
    """Time ``kernel()`` and return it as a :class:`Point`.

    As for the roof, one thread is timed by its own processor time, several by the wall clock.

    Parameters
    ----------
    flops, bytes
        Of one call, counted as for :class:`Point`; ValueError for flops < 0 or bytes <= 0.
    threads
        How many the kernel uses.
    time_limit
        Seconds after which no further sample is begun.
    """
    if flops < 0 or bytes <= 0:
        raise ValueError(f"place expects flops >= 0 and bytes > 0; got {flops} and {bytes}")
    from helpers.timing import measure

    clock = time.thread_time if threads == 1 else time.perf_counter
    timing = measure(
        kernel, repeats=25, warmup=1, min_time=0.002, time_limit=time_limit, clock=clock
    )
    return Point(name, flops, bytes, timing.best, threads)


def under_roof(
    machine: Ceilings, once: Callable[[], Sequence[Point]], rounds: int = 1
) -> list[Point]:
    """Time kernels in turn; measure those above their roof again, and first their roof.

    No kernel is faster than its roof, so one of the two was measured wrongly, or a cache delivered
    bytes that are counted as memory's.

    Parameters
    ----------
    machine
        Whose roofs count. A roof that turns out to be higher is raised in it.
    once
        Times each kernel once and returns their points, always in the same order.
    rounds
        How often ``once`` is called at least.

    Returns
    -------
    list of Point
        The best of each kernel's rounds. ``twice`` is set in those that stay above their roof.
    """
    best = list(once())

    def another_round() -> None:
        best[:] = [min(pair, key=lambda p: p.seconds) for pair in zip(best, once(), strict=True)]

    def above(point: Point) -> bool:
        return point.share(*machine.roof(point.threads)) > ABOVE

    for _ in range(rounds - 1):
        another_round()

    def passed() -> set[tuple[int, str]]:
        roofs = {p: machine.roof(p.threads) for p in best if above(p)}
        return {
            (p.threads, "memory" if bandwidth * p.intensity < peak else "peak")
            for p, (peak, bandwidth) in roofs.items()
        }

    for _ in range(TRIES):  # a roof that others disturbed rises when it is measured again
        if not (wrong := passed()):
            break
        for roof in sorted(wrong):
            machine.raise_roof(*roof)
        another_round()
    return [replace(p, twice=above(p)) for p in best]
