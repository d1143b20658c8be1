"""Watched sends, receives, probes, and calls that send and receive at once.

Each maker here takes a method's name and mpi4py's own method, and returns how it is watched (see
:mod:`helpers.tracing.watching`). Sizes are those of the messages: what a send sent, what a receive
got.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI

from helpers.tracing.activity import EXCHANGE, PROBE, RECEIVE, SEND, Watched
from helpers.tracing.requests import got, timed, traced_message
from helpers.tracing.sizes import nbytes
from helpers.tracing.watching import MESSAGE, PLAIN, REQUEST, TAGS, Method, Shape, Table, keep

_ANY_SOURCE = MPI.ANY_SOURCE
_Status = MPI.Status
_Comm: Any = MPI.Comm
_Message: Any = MPI.Message


def _pickled(value: Any) -> list:
    """Return an object as mpi4py sends it, so that its bytes can be counted."""
    return [MPI.pickle.dumps(value), MPI.BYTE]


def _send(name: str, plain: Method) -> Shape:
    """Send, Isend and their relatives; recorded, an object is pickled here."""
    pickled, immediate = name[0].islower(), name[0] in "iI"
    of_buffer = getattr(_Comm, name.capitalize())

    def recorded(self: Watched, sent: Any, dest: int, tag: int) -> Any:
        sent = _pickled(sent) if pickled else sent
        peer = self._world.get(dest, dest)
        result, begin, end = timed(self, name, peer, tag, of_buffer, self, sent, dest, tag)
        kept = (name, SEND, self.identity, peer, tag, nbytes(sent), begin, end, None, None)
        return keep(self, kept, result if immediate else None)

    return Shape(plain, recorded, REQUEST if immediate else PLAIN)


def _receive(name: str, plain: Method) -> Shape:
    """Recv, recv: from any source the message is found first, see :func:`come`."""
    pickled = name == "recv"
    find = _Comm.mprobe if pickled else _Comm.Mprobe

    def do(self: Watched, buf: Any, source: int, tag: int, status: Any) -> Any:
        if source != _ANY_SOURCE:
            return plain(self, buf, source, tag, status)
        if pickled:  # into memory of the message's size, whatever buf is
            return _Message.recv(find(self, source, tag), status)
        return _Message.Recv(find(self, source, tag), buf, status)

    def recorded(self: Watched, buf: Any, source: int, tag: int, status: Any) -> Any:
        status = _Status() if status is None else status
        peer, shown = self._world.get(source, source), TAGS.get(tag, tag)
        result, begin, end = timed(self, name, peer, shown, do, self, buf, source, tag, status)
        keep(self, (name, RECEIVE, self.identity, *got(self, status), begin, end, None, None))
        return result

    return Shape(do, recorded)


def come(comm: Any, tag: int, find: Callable = _Comm.Improbe) -> MPI.Message | None:
    """Take a message from any source that has arrived, before a receive is posted, or None.

    MPICH 5.0 over UCX, with several hosts: a receive from ``ANY_SOURCE`` is posted twice, for
    memory and for the network. A message from another host that is there before it is posted ends
    only the second, and the first waits for ever; so it does, more rarely, where memory and network
    both bring messages. A matched probe finds them all. So calls that wait probe till there is a
    message. Those that do not take what is there, and post their receive where nothing is.
    """
    # it looks, and only then fetches what has arrived: so twice
    return find(comm, _ANY_SOURCE, tag) or find(comm, _ANY_SOURCE, tag)


def _ireceive(name: str, plain: Method) -> Shape:
    """Irecv, irecv: peer, tag and size are filled in when the request is done."""
    pickled = name == "irecv"
    find = _Comm.improbe if pickled else _Comm.Improbe

    def do(self: Watched, buf: Any, source: int, tag: int) -> Any:
        found = come(self, tag, find) if source == _ANY_SOURCE else None
        if found is None:
            return plain(self, buf, source, tag)
        return _Message.irecv(found) if pickled else _Message.Irecv(found, buf)

    def recorded(self: Watched, buf: Any, source: int, tag: int) -> Any:
        peer, shown = self._world.get(source, source), TAGS.get(tag, tag)
        result, begin, end = timed(self, name, peer, shown, do, self, buf, source, tag)
        kept = (name, RECEIVE, self.identity, peer, shown, 0, begin, end, None, None)
        return keep(self, kept, result)

    return Shape(do, recorded, REQUEST)


def _probe(name: str, plain: Method) -> Shape:
    """Probe, Iprobe: a loop that polls in vain becomes one recorded call.

    Mprobe, Improbe: the message found is traced in its turn.
    """
    matched = name.lower() in ("mprobe", "improbe")

    def recorded(self: Watched, source: int, tag: int, status: Any) -> Any:
        status = _Status() if status is None else status
        peer, shown = self._world.get(source, source), TAGS.get(tag, tag)
        result, begin, end = timed(self, name, peer, shown, plain, self, source, tag, status)
        found = got(self, status) if result else (peer, shown, 0)
        kept = (name, PROBE, self.identity, *found, begin, end, None, None)
        self.recorder.add(kept) if result else self.recorder.poll(list(kept))
        return traced_message(result, self) if matched else result

    return Shape(plain, recorded, MESSAGE if matched else PLAIN)


def _exchange(name: str, plain: Method) -> Shape:
    """Sendrecv, Sendrecv_replace, sendrecv: the last is recorded as mpi4py does it."""
    pickled = name == "sendrecv"

    def do(self: Watched, sent: Any, dest: int, sendtag: int, *more: Any) -> Any:
        *into, source, recvtag, status = more
        if source != _ANY_SOURCE:
            return plain(self, sent, dest, sendtag, *more)
        if pickled:  # with a buffer mpi4py posts a receive, which may lose its message
            return plain(self, sent, dest, sendtag, None, source, recvtag, status)
        if into:
            return _from_anyone(self, sent, dest, sendtag, into[0], recvtag, status)
        return _from_anyone(self, _copied(sent), dest, sendtag, sent, recvtag, status)

    def of_bytes(self: Watched, sent: Any, dest: int, sendtag: int, *more: Any) -> Any:
        into, source, recvtag, status = more
        request = _Comm.Isend(self, sent, dest, sendtag)
        into = None if source == _ANY_SOURCE else into
        result = _Comm.recv(self, into, source, recvtag, status)
        request.Wait()
        return result

    def recorded(self: Watched, sent: Any, dest: int, tag: int, *more: Any) -> Any:
        *rest, status = more
        status = _Status() if status is None else status
        sent = _pickled(sent) if pickled else sent
        peers = self._world.get(dest, dest), self._world.get(rest[-2], rest[-2])
        given = (self, sent, dest, tag, *rest, status)
        result, begin, end = timed(self, name, peers, tag, of_bytes if pickled else do, *given)
        size, received = nbytes(sent), got(self, status)
        kept = (name, EXCHANGE, self.identity, peers[0], tag, size, begin, end, None, received)
        keep(self, kept)
        return result

    return Shape(do, recorded)


def _iexchange(name: str, plain: Method) -> Shape:
    """Isendrecv, Isendrecv_replace."""

    def recorded(self: Watched, sent: Any, dest: int, tag: int, *more: Any) -> Any:
        peers = self._world.get(dest, dest), self._world.get(more[-2], more[-2])
        result, begin, end = timed(self, name, peers, tag, plain, self, sent, dest, tag, *more)
        size = nbytes(sent)
        kept = (name, EXCHANGE, self.identity, peers[0], tag, size, begin, end, None, None)
        return keep(self, kept, result)

    return Shape(plain, recorded, REQUEST)


def _from_anyone(
    comm: Watched, sent: Any, dest: int, sendtag: int, into: Any, tag: int, status: Any
) -> None:
    """Send, and receive from any source a message that is found first; :func:`come` says why."""
    request = _Comm.Isend(comm, sent, dest, sendtag)
    try:
        _Message.Recv(_Comm.Mprobe(comm, _ANY_SOURCE, tag), into, status)
    except MPI.Exception:
        request.Wait()  # MPI reads what is sent to the end
        raise
    request.Wait()


def _copied(buf: Any) -> Any:
    """Return a specification of the same numbers elsewhere."""
    if isinstance(buf, list | tuple):
        return [_copied(buf[0]), *buf[1:]]
    return np.array(buf, order="K")  # of its type: a count in the specification counts its numbers


TABLE: Table = (
    ("Send Bsend Ssend Rsend Isend Ibsend Issend Irsend", _send),
    ("send bsend ssend isend ibsend issend", _send),
    ("Recv recv", _receive),
    ("Irecv irecv", _ireceive),
    ("Probe probe Iprobe iprobe Mprobe mprobe Improbe improbe", _probe),
    ("Sendrecv Sendrecv_replace sendrecv", _exchange),
    ("Isendrecv Isendrecv_replace", _iexchange),
)
