"""A rank as a device of a stated speed, when its arithmetic has messages inside.

``helpers.pace`` lets a block take a stated time. Here a block is cut by messages, and each piece of
arithmetic takes its own time before the message that follows it. (If only the whole were paced, a
rank would wait in its messages for the *real* arithmetic of others, with which it shares cores, and
this wait would be added to the pace.)
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from helpers.machine.waiting import Yielding, until


class Device:
    """Counts seconds of waiting, and paces arithmetic to ``speed`` operations a second."""

    def __init__(self, speed: float | None = None):
        if speed is not None and not speed > 0:
            raise ValueError(f"Device expects a speed above 0 flop/s, or None; got {speed!r}")
        self.speed, self.waited = speed, 0.0
        self.late = 0  # stretches of arithmetic that took longer than their pace allows
        self._due = 0.0  # s of perf_counter: when the arithmetic so far should be done
        self._left: list[float] = []  # operations up to the messages to come, the last first

    @contextmanager
    def compute(self, parts: Sequence[float]) -> Iterator[None]:
        """Let a block take as long as its messages and the operations around them, ``parts``."""
        self._due, self._left = time.perf_counter(), list(reversed(parts))
        yield
        if self.speed is None:
            return
        rest, self._left = sum(self._left), []
        self._pace(rest)

    def arrive(self) -> None:
        """Begin a collective: the arithmetic before it has taken its time when this returns."""
        if self.speed is not None and self._left:
            self._pace(self._left.pop())

    def wait(self, seconds: float) -> None:
        """Note a wait for messages, by which all that follows is later."""
        self.waited += seconds
        self._due += seconds

    def _pace(self, operations: float) -> None:
        """Sleep until so much more arithmetic is due."""
        if operations:
            self._due += operations / self.speed  # type: ignore[operator]
            left = self._due - time.perf_counter()
            time.sleep(max(0.0, left))
            self.late += left < 0


class Metered:
    """A communicator whose waits are counted by a device."""

    def __init__(self, comm: object, device: Device):
        self._comm, self.device = comm, device

    def __getattr__(self, name: str) -> object:
        return getattr(self._comm, name)


LIMIT = 120.0  # seconds: a rank that does not come is missed after these


class Patient:
    """A communicator whose waits leave the core to others, and end."""

    def __init__(self, comm: Any):
        self.comm = comm
        self.Get_rank, self.Get_size = comm.Get_rank, comm.Get_size
        self.Send, self.Recv, self.Isend = comm.Send, comm.Recv, comm.Isend
        self._yielding = Yielding()

    def Sendrecv(  # noqa: N802 - mpi4py's name
        self, sendbuf: Any, dest: int, sendtag: int, recvbuf: Any, source: int, recvtag: int
    ) -> None:
        """Send one array and receive another at the same time."""
        receive = self.comm.Irecv(recvbuf, source, recvtag)
        send = self.comm.Isend(sendbuf, dest, sendtag)
        self.wait([receive, send], source)

    def wait(self, requests: Sequence[Any], peer: object) -> None:
        """Wait for messages; after :data:`LIMIT` seconds, raise an error that blames ``peer``."""
        began = time.perf_counter()
        for request in requests:
            until(
                request.Test,
                time.monotonic() + LIMIT,
                lambda: TimeoutError(
                    f"rank {self.Get_rank()} of {self.Get_size()} waited {LIMIT:g} s for {peer}"
                ),
                yielding=self._yielding,
            )
        device = getattr(self.comm, "device", None)  # of helpers.sharded.device.Metered
        if device is not None:
            device.wait(time.perf_counter() - began)


def begin(comm: Any) -> Patient:
    """Begin a collective: on a rank of a stated speed, what was computed has taken its time."""
    device = getattr(comm, "device", None)
    if device is not None:
        device.arrive()
    return Patient(comm)
