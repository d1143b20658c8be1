"""An interrupt that comes while ranks are ended waits until they are."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

LATER = 0.05  # seconds; by then the collector that called has returned


@contextlib.contextmanager
def noted() -> Iterator[list[int]]:
    """Note each Ctrl-C in the list instead of raising it, until the block has ended.

    Only the main thread is interrupted; in another, or where the program left interrupts to the
    system, nothing changes.
    """
    came: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield came
        return
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Keep Ctrl-C until the block has ended.

    Ranks are also ended when the last reference to their cluster goes. What is raised there Python
    can only print: the rest of the ending would be left out, and the interrupt lost. So it is sent
    again a moment later, to whatever the program does then.
    """
    came: list[int] = []
    try:
        with noted() as came:
            yield
    finally:
        if came:
            again = threading.Timer(LATER, os.kill, (os.getpid(), signal.SIGINT))
            again.daemon = True
            with contextlib.suppress(RuntimeError):  # the interpreter is ending, as was asked
                again.start()
