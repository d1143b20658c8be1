"""How a rank waits for messages: it leaves the core to others, gives up, and counts its waiting."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from helpers.waiting import Yielding, until

LIMIT = 120.0  # seconds: a rank that does not come is missed after these


class Patient:
    """A communicator whose waits leave the core to others, and end.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        Traced or not.
    """

    def __init__(self, comm: Any):
        self.comm = comm
        self.Get_rank, self.Get_size = comm.Get_rank, comm.Get_size
        self.Send, self.Recv, self.Isend = comm.Send, comm.Recv, comm.Isend
        self._yielding = Yielding()

    def Sendrecv(  # noqa: N802 - mpi4py's name
        self, sendbuf: Any, dest: int, sendtag: int, recvbuf: Any, source: int, recvtag: int
    ) -> None:
        """Send one array and receive another at the same time.

        Parameters
        ----------
        sendbuf : numpy.ndarray
            What is sent, contiguous.
        dest, sendtag : int
            The rank that receives it, and which message it is.
        recvbuf : numpy.ndarray
            What is filled, contiguous.
        source, recvtag : int
            The rank that sends to this one, and which message.
        """
        receive = self.comm.Irecv(recvbuf, source, recvtag)
        send = self.comm.Isend(sendbuf, dest, sendtag)
        self.wait([receive, send], source)

    def wait(self, requests: Sequence[Any], peer: object) -> None:
        """Wait for messages.

        Parameters
        ----------
        requests : sequence of mpi4py.MPI.Request
            Under way.
        peer : object
            Whom to blame if they do not come.

        Raises
        ------
        TimeoutError
            After :data:`LIMIT` seconds.
        """
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
    """Begin a collective: on a rank of a stated speed, what was computed has taken its time.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        Traced or not; with an attribute ``device`` where the rank has a speed.

    Returns
    -------
    Patient
        To send and receive with.
    """
    device = getattr(comm, "device", None)
    if device is not None:
        device.arrive()
    return Patient(comm)
