"""How a rank waits for messages: it leaves the core to others, gives up, and counts its waiting."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from helpers.machine.waiting import Yielding, until

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
