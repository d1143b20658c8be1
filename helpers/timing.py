"""Time a call fairly: warm up, repeat, report the median and the spread."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Samples of one call's duration in seconds, in the order in which they were taken."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        """The figure to quote, in seconds."""
        return statistics.median(self.samples)

    @property
    def best(self) -> float:
        """The shortest sample, in seconds: the least disturbed by other processes."""
        return min(self.samples)

    @property
    def spread(self) -> float:
        """Interquartile range, in seconds (0 for a single sample)."""
        if len(self.samples) < 2:
            return 0.0
        quartiles = statistics.quantiles(self.samples, n=4, method="inclusive")
        return quartiles[2] - quartiles[0]

    def __str__(self) -> str:
        return f"{seconds(self.median)} (± {seconds(self.spread)}, {len(self.samples)} runs)"


def seconds(value: float) -> str:
    """Format seconds with three digits and a fitting unit: s, ms or µs.

    >>> seconds(0.00123)
    '1.23 ms'
    """
    for factor, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
        if abs(value) * factor >= 1 or unit == "µs":
            return f"{value * factor:.3g} {unit}"
    raise AssertionError("unreachable")


def measure(
    function: Callable[[], object],
    *,
    repeats: int = 7,
    warmup: int = 2,
    min_time: float = 0.0,
    time_limit: float = 60.0,
) -> Timing:
    """Time a call.

    Parameters
    ----------
    repeats
        Samples to take.
    min_time
        Seconds that one sample fills with as many calls as it takes, so that a call of a
        microsecond is not lost in the clock's resolution.
    time_limit
        Seconds after which no further sample is begun; there is always at least one.
    """
    if repeats < 1 or warmup < 0 or min_time < 0 or time_limit < 0:
        raise ValueError(
            "measure expects repeats >= 1, warmup >= 0 and times >= 0; got "
            f"repeats={repeats}, warmup={warmup}, min_time={min_time}, time_limit={time_limit}"
        )
    started = time.perf_counter()
    for _ in range(warmup):
        function()
    calls = _calls_filling(min_time, function) if min_time else 1
    samples: list[float] = []
    while len(samples) < repeats:
        begin = time.perf_counter()
        for _ in range(calls):
            function()
        samples.append((time.perf_counter() - begin) / calls)
        if time.perf_counter() - started > time_limit:
            break
    return Timing(tuple(samples))


def _calls_filling(min_time: float, function: Callable[[], object]) -> int:
    """Double the number of calls until they take ``min_time`` seconds together."""
    calls = 1
    while True:
        begin = time.perf_counter()
        for _ in range(calls):
            function()
        if time.perf_counter() - begin >= min_time:
            return calls
        calls *= 2


CONFIDENCE = 0.95


def student(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean and Student's interval for it at 95 %: ``(mean, low, high)``.

    The interval of a single value has no ends.
    """
    if not values:
        raise ValueError(f"an interval expects one value at least; got {values!r}")
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, -math.inf, math.inf
    from scipy.stats import t

    error = statistics.stdev(values) / math.sqrt(len(values))
    half = float(t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)) * error
    return mean, mean - half, mean + half
