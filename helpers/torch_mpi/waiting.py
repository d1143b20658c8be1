"""Waiting with a deadline: first spinning, then yielding the core, then sleeping.

Needs neither MPI nor torch: what is waited for is handed in as functions.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

SPINS = 60  # looks of about 0.1 µs before the core is offered to others
YIELD_FOR = 2e-3  # seconds of yielding before sleeping between looks
NAP = 50e-6  # seconds: a sleeping rank leaves its core to a rank that computes
SLICE = 1e-3  # seconds: a yield that takes longer gave the core to a stranger's whole time slice
MEMORY = 0.1  # seconds for which that is remembered


class ClosedError(RuntimeError):
    """What was waited for was given up meanwhile, and can never come."""


class Yielding:
    """How to wait for other ranks on this core: by yielding, or asleep while strangers use it.

    Between ranks alone, a yield is the shortest way to the next one's turn. But who yields to a
    process that never waits gets the core back only a whole time slice later; who sleeps gets it
    back on waking.
    """

    def __init__(self) -> None:
        self._crowded_until = 0.0

    def leave(self, now: float) -> None:
        """Let others have the core for a moment.

        Parameters
        ----------
        now
            The time on ``time.monotonic``'s clock, in seconds.
        """
        if now < self._crowded_until:
            time.sleep(NAP)
            return
        os.sched_yield()  # and not sleep(0), which Linux rounds up to its timers' slack, 50 µs
        after = time.monotonic()
        if after - now > SLICE:
            self._crowded_until = after + MEMORY


class Announcement(AbstractContextManager, Protocol):
    """Says to whoever watches this rank what it waits for, while its block lasts."""

    def renew(self) -> None:
        """Say it again: what was done meanwhile may have said something else."""


def until(
    ready: Callable[[], object],
    deadline: float,
    late: Callable[[], BaseException],
    announce: Callable[[], Announcement],
    progress: Callable[[], object] | None = None,
    closed: Callable[[], bool] | None = None,
    spins: int = SPINS,
    yield_for: float = YIELD_FOR,
    yielding: Yielding | None = None,
) -> None:
    """Return once ``ready()`` is true.

    Parameters
    ----------
    ready
        Looks once, without waiting.
    deadline
        When to give up, on ``time.monotonic``'s clock, in seconds.
    late
        Makes the exception that is raised then.
    announce
        Makes what says for whom this waits; asked only if the first looks were in vain.
    progress
        Called now and then, so that MPI's own messages move meanwhile.
    closed
        Tells whether what is waited for can no longer come; may raise an error that says why.
    spins
        How many looks at once, before the core is offered to others.
    yield_for
        Seconds in which the core is offered between looks, before sleeping between them.
    yielding
        What is known of the others on this core, where several waits share that.

    Raises
    ------
    ClosedError
        ``closed()`` turned true.
    BaseException
        ``late()``, after ``deadline``.
    """
    for _ in range(spins):
        if ready():
            return
    yielding = yielding or Yielding()
    started = time.monotonic()
    turns = 0
    with announce() as announced:
        while not ready():
            turns += 1
            announced.renew()
            if progress is not None and turns % 16 == 0:
                progress()
            now = time.monotonic()
            if now > deadline:
                raise late()
            if closed is not None and closed():
                raise ClosedError("what this operation waited for was given up meanwhile")
            if now - started < yield_for:
                yielding.leave(now)
            else:
                time.sleep(NAP)
