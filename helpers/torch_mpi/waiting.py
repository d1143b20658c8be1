"""Waiting with a deadline: first spinning, then yielding the core, then sleeping."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

SPINS = 60  # polls of about 0.1 µs before the core is offered to others
YIELD_FOR = 2e-3  # seconds of yielding before sleeping between polls
NAP = 50e-6  # seconds: a sleeping rank leaves its core to a rank that computes
SLICE = 1e-3  # seconds: a yield that takes longer gave the core to a stranger's whole time slice
MEMORY = 0.1  # seconds for which that is remembered


class Core:
    """How to wait for other ranks on this core: by yielding, or asleep while strangers use it.

    Between ranks alone, a yield is the shortest way to the next one's turn. But who yields to a
    process that never waits gets the core back only a whole time slice later; who sleeps gets it
    back on waking.
    """

    def __init__(self):
        self._crowded_until = 0.0

    def leave(self, now: float) -> None:
        """Let others have the core for a moment; ``now`` is the time on the monotonic clock."""
        if now < self._crowded_until:
            time.sleep(NAP)
            return
        os.sched_yield()  # and not sleep(0), which Linux rounds up to its timers' slack, 50 µs
        after = time.monotonic()
        if after - now > SLICE:
            self._crowded_until = after + MEMORY


class ClosedError(RuntimeError):
    """The group was destroyed while this operation waited."""


class Told:
    """What this rank waits for, told to whoever watches ``comm`` (:mod:`helpers.cluster` may).

    The main thread's waits alone: beside the others the rank computes.
    """

    def __init__(self, comm, call: str, peer: int | str = "all", tag: int | None = None):
        self._recorder = getattr(comm, "recorder", None)
        if self._recorder is not None:
            if threading.current_thread() is threading.main_thread():
                self._what = comm.waiting(call, peer, tag)
            else:
                self._recorder = None

    def renew(self) -> None:
        """Tell it again: polling MPI meanwhile has overwritten it."""
        if self._recorder is not None:
            self._recorder.current = self._what

    def __enter__(self) -> Told:
        self.renew()
        return self

    def __exit__(self, *error) -> None:
        if self._recorder is not None:
            self._recorder.current = None


def until(
    ready: Callable[[], bool],
    deadline: float,
    late: Callable[[], BaseException],
    told: Callable[[], Told],
    progress: Callable[[], object] | None = None,
    closed: Callable[[], bool] | None = None,
    spins: int = SPINS,
    yield_for: float = YIELD_FOR,
    core: Core | None = None,
) -> None:
    """Return once ``ready()`` is true.

    ``told()`` says for whom this waits; it is asked only if the spinning was in vain.
    ``progress()`` is called now and then, so that MPI's own messages move meanwhile. Raises
    ``late()`` after ``deadline`` (on ``time.monotonic``'s clock, seconds) and
    :class:`ClosedError` when ``closed()`` turns true.
    """
    for _ in range(spins):
        if ready():
            return
    core = core or Core()
    started = time.monotonic()
    turns = 0
    with told() as waiting:
        while not ready():
            turns += 1
            waiting.renew()
            if progress is not None and turns % 16 == 0:
                progress()
            now = time.monotonic()
            if now > deadline:
                raise late()
            if closed is not None and closed():
                raise ClosedError("the process group was destroyed during this operation")
            if now - started < yield_for:
                core.leave(now)
            else:
                time.sleep(NAP)
