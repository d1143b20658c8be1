"""A communicator that takes notes: which messages an algorithm sends, without or with sending them.

What an algorithm sends depends on the number of ranks and on nothing it receives. So running it
once for every rank on ``Notes(rank, n)``, which sends nothing, lists the messages of any number of
ranks: that is the *model*. On ``Notes.of(comm)`` the messages are sent as well.
"""

from __future__ import annotations

from typing import NamedTuple


class Call(NamedTuple):
    """One call of one rank: to whom it sends what, from whom it receives what (None: nothing)."""

    waits: bool  # for the receiver, before the rank goes on: False for Isend only
    dest: int | None = None
    sent_tag: int = 0
    sent_bytes: int = 0
    source: int | None = None
    received_tag: int = 0


class Notes:
    """Rank ``rank`` of ``n``: as much of mpi4py's communicator as the algorithms here use."""

    def __init__(self, rank: int, n: int, comm=None):
        self.calls: list[Call] = []
        self._rank, self._n, self._comm = rank, n, comm

    @classmethod
    def of(cls, comm) -> Notes:
        """Take notes of what this rank does on ``comm``, and do it."""
        return cls(comm.Get_rank(), comm.Get_size(), comm)

    def Get_rank(self) -> int:  # noqa: N802 - mpi4py's names
        return self._rank

    def Get_size(self) -> int:  # noqa: N802
        return self._n

    def Send(self, buf, dest: int, tag: int = 0) -> None:  # noqa: N802
        self.calls.append(Call(True, dest, tag, buf.nbytes))
        if self._comm is not None:
            self._comm.Send(buf, dest, tag)

    def Isend(self, buf, dest: int, tag: int = 0):  # noqa: N802
        self.calls.append(Call(False, dest, tag, buf.nbytes))
        return Done() if self._comm is None else self._comm.Isend(buf, dest, tag)

    def Recv(self, buf, source: int, tag: int = 0) -> None:  # noqa: N802
        self.calls.append(Call(True, source=source, received_tag=tag))
        if self._comm is not None:
            self._comm.Recv(buf, source, tag)

    def Sendrecv(self, sendbuf, dest, sendtag, recvbuf, source, recvtag) -> None:  # noqa: N802
        self.calls.append(Call(True, dest, sendtag, sendbuf.nbytes, source, recvtag))
        if self._comm is not None:
            self._comm.Sendrecv(sendbuf, dest, sendtag, recvbuf, source, recvtag)


class Done:
    """The request of a message that nobody sends: complete at once."""

    def Wait(self) -> None:  # noqa: N802
        pass
