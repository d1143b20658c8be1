"""Waiting with a deadline: first spinning, then yielding the core, then sleeping."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

SPINS = 60  # polls of about 0.1 µs before the core is offered to others
YIELD_FOR = 2e-3  # seconds of yielding before sleeping between polls
NAP = 50e-6  # seconds: a sleeping rank leaves its core to a rank that computes


class ClosedError(RuntimeError):
    """The group was destroyed while this operation waited."""


def until(
    ready: Callable[[], bool],
    deadline: float,
    late: Callable[[], BaseException],
    progress: Callable[[], object] | None = None,
    closed: Callable[[], bool] | None = None,
    spins: int = SPINS,
    yield_for: float = YIELD_FOR,
) -> None:
    """Return once ``ready()`` is true.

    ``progress()`` is called now and then, so that MPI's own messages move meanwhile. Raises
    ``late()`` after ``deadline`` (on ``time.monotonic``'s clock, seconds) and
    :class:`ClosedError` when ``closed()`` turns true.
    """
    for _ in range(spins):
        if ready():
            return
    started = time.monotonic()
    turns = 0
    while not ready():
        turns += 1
        if progress is not None and turns % 16 == 0:
            progress()
        now = time.monotonic()
        if now > deadline:
            raise late()
        if closed is not None and closed():
            raise ClosedError("the process group was destroyed during this operation")
        if now - started < yield_for:
            os.sched_yield()  # and not sleep(0), which Linux rounds up to its timers' slack, 50 µs
        else:
            time.sleep(NAP)
