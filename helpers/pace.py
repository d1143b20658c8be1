"""A rank as a device of a stated speed: it computes, then sleeps until the stated time has passed.

Ranks that share a machine's cores take turns at them: four ranks on two cores take twice as long as
on four, and no speed-up can be seen. A paced rank does its real arithmetic and then leaves the core
to the others. Arithmetic that fills a small part of the pace lets many ranks keep theirs on few
cores, while messages, waiting and overlap stay real:

    for step in range(10):
        with pace(20e-3):  # one step on the device: 20 ms
            gradient = ...
        comm.Allreduce(MPI.IN_PLACE, gradient)
"""

from __future__ import annotations

import numbers
import time
import warnings
from types import TracebackType

__all__ = ["OutpacedWarning", "pace"]

SLACK = 1e-4  # seconds: Linux wakes a sleeper up to 0.05 ms late; the last of it is not slept
TOLERANCE = 0.01  # of the pace: a shorter excess is no news


class OutpacedWarning(UserWarning):
    """The work of a paced block took longer than its pace."""


class pace:  # noqa: N801 (read as a verb: with pace(20e-3))
    """Let a block take ``seconds``, whatever less its work takes.

    If the work takes longer, OutpacedWarning says so. After the block ``work`` is what the work
    took, and ``took`` what the block took as a whole, in seconds.

    >>> with pace(2e-3) as step:
    ...     total = sum(range(10))
    >>> step.work < 2e-3 <= step.took
    True
    """

    def __init__(self, seconds: float) -> None:
        number = isinstance(seconds, numbers.Real) and not isinstance(seconds, bool)
        if not number or not 0 < seconds < float("inf"):
            raise ValueError(f"pace({seconds!r}): expected a number of seconds above 0")
        self.seconds = float(seconds)
        self.work = self.took = 0.0
        self._begin = 0.0

    def __enter__(self) -> pace:
        self._begin = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        end = self._begin + self.seconds
        self.work = time.perf_counter() - self._begin
        if error is None:
            _sleep_until(end)
        self.took = time.perf_counter() - self._begin
        if error is None and self.work > self.seconds * (1 + TOLERANCE):
            warnings.warn(
                f"pace({self.seconds:g}): the work took {self.work:.3g} s; give it a longer pace, "
                "less work, or fewer ranks a core",
                OutpacedWarning,
                stacklevel=2,
            )


def _sleep_until(end: float) -> None:
    while (left := end - time.perf_counter()) > SLACK:
        time.sleep(left - SLACK)
    while time.perf_counter() < end:
        pass
