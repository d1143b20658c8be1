"""Messages with a time limit, and what workers and the parameter server say to each other."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.machine import waiting

if TYPE_CHECKING:
    from mpi4py import MPI

HELLO, READY, GRADIENT, PARAMETERS = 11, 12, 13, 14  # tags: one for each kind of message
NAP = 100e-6  # seconds between two looks: a waiting rank leaves its core to one that computes


class SilenceError(TimeoutError):
    """Nobody answered within the time limit."""


@dataclass
class Hello:
    """What a worker says first: what it ``brings`` (``"nothing"``, ``"gradient"``, ``"goodbye"``).

    `version` counts the updates behind the parameters that the gradient belongs to.
    """

    brings: str
    sizes: tuple[int, ...] = ()
    version: int = 0
    loss: float = 0.0
    batch: int = 0
    reason: str = ""


@dataclass
class Ready:
    """The server's reply: whether to send, and how many updates are behind its parameters."""

    go: bool
    reason: str = ""
    version: int = 0


def _until(done: Callable[[], bool], seconds: float) -> bool:
    """Wait politely until ``done()``, at most ``seconds``; return whether it is."""
    try:
        waiting.until(done, time.monotonic() + seconds, SilenceError, nap=NAP)
    except SilenceError:
        return False
    return True


def wait(request: MPI.Request, seconds: float, what: str) -> Any:
    """Wait for a request of mpi4py; raise SilenceError after `seconds`, and cancel it."""
    value = None

    def done() -> bool:
        nonlocal value
        arrived, value = request.test()
        return arrived

    if not _until(done, seconds):
        request.Cancel()
        raise SilenceError(f"{what} within {seconds:g} s")
    return value


def receive(comm: MPI.Intracomm, buffer: np.ndarray, source: int, tag: int, seconds: float) -> None:
    """Receive one message; raise SilenceError after `seconds`."""
    what = f"no message with tag {tag} and {buffer.size} elements came from rank {source}"
    wait(comm.Irecv(buffer, source=source, tag=tag), seconds, what)


def next_hello(comm: MPI.Intracomm, seconds: float) -> tuple[int, Hello] | None:
    """Return the next hello in order of arrival, and who says it; None if nobody did in time."""
    from mpi4py import MPI  # here: a notebook's kernel imports this module and is no rank

    status = MPI.Status()
    if not _until(lambda: comm.iprobe(MPI.ANY_SOURCE, HELLO, status), seconds):
        return None
    return status.Get_source(), comm.recv(source=status.Get_source(), tag=HELLO)


def all_leave(
    comm: MPI.Intracomm, seconds: float, answer: Callable[[int, Hello], None] | None = None
) -> None:
    """Wait until all ranks are here, answering hellos; go on without them after `seconds`."""
    everybody = comm.Ibarrier()

    def done() -> bool:
        while answer is not None and (called := next_hello(comm, 0)):
            answer(*called)
        return everybody.Test()

    _until(done, seconds)
