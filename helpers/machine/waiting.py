"""Waiting with a deadline, and without keeping a core that others could use.

First a few looks at once, then the core is offered to others between looks, then the process sleeps
between them. What is waited for is handed in as functions.
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
    """What was waited for can no longer come; the message says why."""


class Yielding:
    """How to wait for other ranks on this core: by yielding, or asleep while strangers use it.

    Between ranks alone, a yield is the shortest way to the next one's turn. But who yields to a
    process that never waits gets the core back only a whole time slice later; who sleeps gets it
    back on waking.
    """

    def __init__(self) -> None:
        self._crowded_until = 0.0

    def leave(self, now: float) -> None:
        """Let others have the core for a moment; ``now`` is ``time.monotonic``'s."""
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


class _Silence:
    def renew(self) -> None:
        pass

    def __enter__(self) -> _Silence:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def until(
    ready: Callable[[], object],
    deadline: float,  # s, on time.monotonic's clock
    late: Callable[[], BaseException],
    announce: Callable[[], Announcement] = _Silence,  # asked only if the first looks were in vain
    progress: Callable[[], object] | None = None,  # called now and then, for MPI's own messages
    closed: Callable[[], str] | None = None,  # says why it can no longer come; "" while it can
    spins: int = SPINS,  # looks at once, before the core is offered to others
    yield_for: float = YIELD_FOR,  # s in which it is offered, before sleeping between looks
    nap: float = NAP,  # s of each sleep
    yielding: Yielding | None = None,  # where several waits share what is known of this core
) -> None:
    """Return once ``ready()``, which looks without waiting, is true.

    >>> request = comm.Irecv(buffer, source=1)  # doctest: +SKIP
    >>> until(request.Test, time.monotonic() + 5, lambda: TimeoutError("rank 1 sent nothing"))
    ... # doctest: +SKIP

    Raises what ``late()`` makes after ``deadline``, and ClosedError where ``closed()`` says why.
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
            if closed is not None and (why := closed()):
                raise ClosedError(why)
            if now - started < yield_for:
                yielding.leave(now)
            else:
                time.sleep(nap)
