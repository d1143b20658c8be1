"""Messages with a time limit, and what workers and the parameter server say to each other."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import numpy as np
from mpi4py import MPI

HELLO, READY, GRADIENT, PARAMETERS = 11, 12, 13, 14  # tags: one for each kind of message
NAP = 100e-6  # seconds between two looks: a waiting rank leaves its core to one that computes
SPINS = 200


class SilenceError(TimeoutError):
    """Nobody answered within the time limit."""


@dataclass
class Hello:
    """What a worker says first: who it is, what it brings, how old its parameters are."""

    brings: str  # "nothing", "gradient" or "goodbye"
    sizes: tuple[int, ...] = ()  # elements of each layer that would follow
    version: int = 0  # updates behind the parameters that the gradient belongs to
    loss: float = 0.0
    reason: str = ""


@dataclass
class Ready:
    """The server's reply: whether to send, and why not."""

    go: bool
    reason: str = ""
    version: int = 0


def _pause(looks: int) -> None:
    """Offer the core to others at first, then leave it to them for a while."""
    if looks < SPINS:
        os.sched_yield()
    else:
        time.sleep(NAP)


def wait(request, seconds: float, what: str):
    """Wait for a request of mpi4py, at most ``seconds``; return what it brings.

    Raises SilenceError, with ``what`` in its message, after cancelling the request.
    """
    end = time.monotonic() + seconds
    looks = 0
    while True:
        done, value = request.test()
        if done:
            return value
        looks += 1
        if time.monotonic() > end:
            request.Cancel()
            raise SilenceError(f"{what} within {seconds:g} s")
        _pause(looks)


def receive(comm, buffer: np.ndarray, source: int, tag: int, seconds: float) -> None:
    """Receive into ``buffer``. Raises SilenceError after ``seconds``."""
    what = f"no message with tag {tag} and {buffer.size} elements came from rank {source}"
    wait(comm.Irecv(buffer, source=source, tag=tag), seconds, what)


def next_hello(comm, seconds: float) -> tuple[int, Hello] | None:
    """Return ``(rank, hello)`` in order of arrival, or None if nobody calls for ``seconds``."""
    end = time.monotonic() + seconds
    looks = 0
    status = MPI.Status()
    while not comm.iprobe(source=MPI.ANY_SOURCE, tag=HELLO, status=status):
        if time.monotonic() > end:
            return None
        looks += 1
        _pause(looks)
    return status.Get_source(), comm.recv(source=status.Get_source(), tag=HELLO)
