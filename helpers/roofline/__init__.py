"""This machine's ceilings, and kernels under them: the roofline model.

P = min(π, β · I), with π the peak in flop/s, β a bandwidth in bytes/s and I the arithmetic
intensity in flop/byte (Williams, Waterman & Patterson 2009, CACM 52(4)).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Point", "place"]


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
    """

    name: str
    flops: float
    bytes: float
    seconds: float
    threads: int = 1

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

    timing = measure(kernel, repeats=25, warmup=1, min_time=0.002, time_limit=time_limit)
    return Point(name, flops, bytes, timing.best, threads)
