"""What an algorithm is handed: a communicator, and a way to combine two arrays."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np


class Request(Protocol):
    """A message under way."""

    def Wait(self) -> Any:  # noqa: N802 - mpi4py's names
        """Return once the message is through."""


class Communicator(Protocol):
    """As much of mpi4py's ``Intracomm`` as the algorithms here use."""

    def Get_rank(self) -> int:  # noqa: N802
        """Return this rank's number."""

    def Get_size(self) -> int:  # noqa: N802
        """Return the number of ranks."""

    def Send(self, buf: Any, dest: int, tag: int = 0) -> Any:  # noqa: N802
        """Send an array."""

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> Request:  # noqa: N802
        """Begin to send an array."""

    def Recv(self, buf: Any, source: int, tag: int = 0) -> Any:  # noqa: N802
        """Receive into an array."""

    def Sendrecv(  # noqa: N802
        self, sendbuf: Any, dest: int, sendtag: int, recvbuf: Any, source: int, recvtag: int
    ) -> Any:
        """Send one array and receive another at the same time."""


class Combine(Protocol):
    """The arithmetic of a reduction, such as a :class:`~helpers.collectives.combiner.Combiner`."""

    def __call__(self, mine: np.ndarray, theirs: np.ndarray, theirs_first: bool = True) -> None:
        """Set ``mine`` to *theirs op mine*, or to *mine op theirs* unless ``theirs_first``."""
