"""Time a call fairly (warm up, repeat, report median and spread); see if others disturb it."""

from __future__ import annotations

import contextlib
import math
import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple


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
        shown = value * factor
        if abs(shown) >= 0.9995 or unit == "µs":  # 0.9995 rounds to 1
            return f"{shown:{'.3g' if abs(shown) < 999.5 else '.0f'}} {unit}"
    raise AssertionError("unreachable")


def measure(
    function: Callable[[], object],
    *,
    repeats: int = 7,
    warmup: int = 2,
    min_time: float = 0.0,
    time_limit: float = 60.0,
    clock: Callable[[], float] = time.perf_counter,
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
    clock
        What samples are read from. ``time.thread_time`` leaves out the time for which other
        programs had the core, and what other threads do for the call.
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
        begin = clock()
        for _ in range(calls):
            function()
        samples.append((clock() - begin) / calls)
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


class Spent(NamedTuple):
    """Seconds of the cores that this process may use, summed over the cores."""

    own: float  # had by this process and those that it has started, ended ones included
    busy: float  # had by all programs of this machine, and by other guests of its host
    idle: float


class Others:
    """Watch how much of the cores programs other than this one have while a block runs.

    A notebook's ranks, child processes and threads belong to it. Other programs disturb its times
    if they had a tenth of the cores, and more than was idle. An object that watches several blocks
    adds them up. It says nothing of a block of less than 0.2 s, nor outside Linux.

    >>> with Others() as others:
    ...     total = sum(range(10))
    >>> others.disturb, str(others)
    (False, '')
    """

    LEAST = 0.1  # of the cores
    SHORTEST = 0.2  # seconds: the cores' clocks tick every 10 ms

    def __init__(self) -> None:
        self.spent = Spent(0.0, 0.0, 0.0)
        self.seconds = self._began = 0.0
        self._before: Spent | None = None

    def __enter__(self) -> Others:
        self._began, self._before = time.perf_counter(), _spent()
        return self

    def __exit__(self, *error: object) -> None:
        now = _spent()
        if now is not None and self._before is not None:
            parts = zip(self.spent, now, self._before, strict=True)
            self.spent = Spent(*(so_far + end - begin for so_far, end, begin in parts))
            self.seconds += time.perf_counter() - self._began

    @property
    def share(self) -> float:
        """The part of the cores that other programs had, between 0 and 1."""
        own, busy, idle = self.spent
        return max(0.0, busy - own) / (busy + idle) if busy + idle > 0 else 0.0

    @property
    def disturb(self) -> bool:
        """Whether other programs had so much of the cores that times are not to be believed."""
        _, busy, idle = self.spent
        if self.seconds < self.SHORTEST or busy + idle <= 0:
            return False
        return self.share > max(self.LEAST, idle / (busy + idle))

    def __str__(self) -> str:
        had = f"other programs had {100 * self.share:.0f} % of the cores"
        return f"BUSY MACHINE: {had}. Do not believe these times." if self.disturb else ""

    def say(self) -> None:
        """Print a warning if other programs disturbed."""
        if self.disturb:
            print(self)


def _spent() -> Spent | None:
    """Read the clocks of the cores and of this process's family; None where they tell too little.

    macOS drops the time of children that have ended.
    """
    if not hasattr(os, "sched_getaffinity"):
        return None
    import psutil

    this, own = psutil.Process(), 0.0
    for process in (this, *this.children(recursive=True)):
        with contextlib.suppress(psutil.Error):  # it has ended: its parent has its time
            own += sum(process.cpu_times()[:4])  # also that of children that have ended
    mine = os.sched_getaffinity(0)
    cores = [core for i, core in enumerate(psutil.cpu_times(percpu=True)) if i in mine]
    busy = sum(core.user + core.nice + core.system + core.steal for core in cores)
    return Spent(own, busy, sum(core.idle + core.iowait for core in cores))
