"""A communicator whose receives expect whole messages: what is too short is refused by name.

MPI itself refuses a message that is longer than the memory for it, and takes one that is shorter
without a word: the rest of that memory stays what it was. Where ranks call a collective with arrays
of unequal lengths, some rank receives too much and some rank too little; the latter would add up
whatever lay in its scratch memory. Asking each message for its length costs no message.
"""

from __future__ import annotations

from typing import Any

import numpy as np


class Exact:
    """Another communicator's sends and receives, with messages as long as what they fill.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        Through which they go.
    array : numpy.ndarray
        This rank's, as the caller passed it, for the message.
    """

    def __init__(self, comm: Any, array: np.ndarray):
        from mpi4py import MPI

        self._comm, self._array, self._byte = comm, array, MPI.BYTE
        self._status = MPI.Status()
        self.Get_rank, self.Get_size = comm.Get_rank, comm.Get_size
        self.Send, self.Isend = comm.Send, comm.Isend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._comm, name)  # an algorithm of somebody's own may need more

    def Recv(self, buf: np.ndarray, source: int, tag: int = 0) -> None:  # noqa: N802
        """Receive into an array.

        Parameters
        ----------
        buf : numpy.ndarray
            Contiguous.
        source, tag : int
            The rank that sends it, and which message it is.
        """
        self._comm.Recv(buf, source, tag, status=self._status)
        self._check(buf, source)

    def Sendrecv(  # noqa: N802
        self, sendbuf: Any, dest: int, sendtag: int, recvbuf: np.ndarray, source: int, recvtag: int
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
        self._comm.Sendrecv(sendbuf, dest, sendtag, recvbuf, source, recvtag, status=self._status)
        self._check(recvbuf, source)

    def _check(self, filled: np.ndarray, source: int) -> None:
        arrived = self._status.Get_count(self._byte)
        if arrived != filled.nbytes:
            raise ValueError(
                f"rank {source} sent a message of {arrived} bytes where {filled.nbytes} were "
                "expected: all ranks must pass arrays of the same shape and dtype (here "
                f"{self._array.shape}, {self._array.dtype}), and the same root, algorithm and "
                "counts"
            )
