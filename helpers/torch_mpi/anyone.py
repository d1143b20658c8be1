"""Receives from any rank: each is begun when its message has been found.

MPICH 5.0 may lose a message for a receive from ``ANY_SOURCE`` that is posted, where ranks are on
several hosts (:func:`helpers.tracing.point_to_point.come`); a matched probe finds it.
"""

from __future__ import annotations

import threading
from typing import Protocol

from mpi4py import MPI


class Receive(Protocol):
    """A receive that has not begun; ``room`` is MPI's view of the memory that it is for."""

    peer: int
    tag: int
    room: MPI.buffer
    request: MPI.Request | None


class FromAnyone:
    """The receives of a communicator that have not begun, in the order in which they were asked.

    MPI gives a message to the receive that was asked for first of those that it fits. So behind one
    from anyone, others of its tag wait too.
    """

    def __init__(self, comm: MPI.Intracomm):
        self._comm = comm
        self._waiting: list[Receive] = []
        self._lock = threading.Lock()

    def add(self, receive: Receive) -> None:
        """Begin a receive, or keep it till its message has come."""
        with self._lock:
            self._waiting.append(receive)
        self.look()

    def remove(self, receive: Receive) -> None:
        """Forget a receive."""
        with self._lock:
            if receive in self._waiting:
                self._waiting.remove(receive)

    def look(self) -> None:
        """Begin the receives that may be begun."""
        with self._lock:
            if not self._waiting:
                return
            nothing: set[int] = set()  # tags with which nobody has sent anything
            for receive in list(self._waiting):
                if receive.tag in nothing:
                    continue
                peer, tag, found = receive.peer, receive.tag, None
                if peer == MPI.ANY_SOURCE and not (found := self._comm.Improbe(peer, tag)):
                    nothing.add(tag)
                    continue
                self._waiting.remove(receive)  # first: one that fails must not stand in the way
                room = [receive.room, MPI.BYTE]
                begun = found.Irecv(room) if found else self._comm.Irecv(room, peer, tag)
                receive.request = begun
