"""Waiting for other ranks: all meet, asleep; and for other processes, with a deadline.

How one waits for anything is in :mod:`helpers.machine.waiting`.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NoReturn

from helpers.machine.waiting import until

if TYPE_CHECKING:
    from mpi4py import MPI

MEETING = 5e-3  # seconds from the last rank's arrival until all go on
DOZE = 1e-3  # seconds between two looks of a rank that has nothing to do


def comes_true(ready: Callable[[], object], seconds: float = 10.0, nap: float = 0.02) -> bool:
    """Look now and then, asleep in between, until ``ready()`` or for so long; tell which it was."""
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            return False
        time.sleep(nap)
    return True


def doze(comm: MPI.Intracomm, interval: float = DOZE, timeout: float | None = None) -> None:
    """Wait until every rank of a communicator has called this, asleep instead of spinning.

    ``comm.Barrier()`` asks for messages as fast as it can, which takes a core from the ranks that
    still compute. TimeoutError after ``timeout`` seconds; None waits for ever.
    """
    done = comm.Ibarrier()
    until(
        done.Test,
        time.monotonic() + (float("inf") if timeout is None else timeout),
        lambda: TimeoutError(f"not all {comm.Get_size()} ranks were there within {timeout:g} s"),
        spins=0,
        yield_for=0.0,
        nap=interval,
    )


def meet(comm: MPI.Intracomm, pause: float = MEETING) -> None:
    """Return on all ranks of a communicator at the same moment, as near as the machine can.

    From ``comm.Barrier()`` ranks that share cores return one after the other, milliseconds apart.
    Here they agree on a moment, ``pause`` seconds from now, and sleep until then. No trace shows
    it. Where machines' monotonic clocks do not agree, they go on within ``pause`` of each other.
    """
    from mpi4py import MPI

    plain = MPI.Intracomm(comm)
    doze(plain)
    moment = plain.bcast(time.monotonic() + pause)
    time.sleep(min(max(0.0, moment - time.monotonic()), pause))


@contextlib.contextmanager
def at_most(seconds: float, late: Callable[[], BaseException]) -> Iterator[None]:
    """Raise ``late()`` in a block that lasts over ``seconds``, where the system has alarm signals.

    A block within another such block keeps the alarm of the outer one, if that is due earlier.
    """
    on_main_thread = threading.current_thread() is threading.main_thread()
    if not (on_main_thread and hasattr(signal, "setitimer")):
        yield
        return
    outer, begin = signal.getitimer(signal.ITIMER_REAL)[0], time.monotonic()
    if 0 < outer <= seconds:
        yield
        return

    def too_long(signum: int, frame: object) -> NoReturn:
        raise late()

    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if outer:
            left = outer - (time.monotonic() - begin)
            signal.setitimer(signal.ITIMER_REAL, max(left, 1e-6))
