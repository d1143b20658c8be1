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
from helpers.tracing.requests import got, traced_message
from helpers.tracing.sizes import nbytes
from helpers.tracing.watching import MESSAGE, PLAIN, REQUEST, Method, Shape, Table, kept

_ANY_SOURCE = MPI.ANY_SOURCE
_Comm: Any = MPI.Comm
_Message: Any = MPI.Message


def _send(name: str, plain: Method) -> Shape:
    """Send, Isend and their relatives; recorded, an object is pickled here."""
    immediate = name[0] in "iI"
    packed = getattr(_Comm, name.capitalize()) if name[0].islower() else None

    def keep(
        comm: Watched, made: Any, begin: int, end: int, peer: Any, tag: Any, given: tuple
    ) -> Any:
        size = len(given[0][0]) if packed else nbytes(given[0])
        call = (name, SEND, comm.identity, peer, tag, size, begin, end, None, None)
        return kept(comm, call, made if immediate else None)

    return Shape(keep, REQUEST if immediate else PLAIN, packed=packed)


def _receive(name: str, plain: Method) -> Shape:
    """Recv, recv: from any source the message is found first, see :func:`come`."""
    pickled = name == "recv"
    find = _Comm.mprobe if pickled else _Comm.Mprobe

    def anyone(comm: Watched, buf: Any, source: int, tag: int, status: Any) -> Any:
        if pickled:  # into memory of the message's size, whatever buf is
            return _Message.recv(find(comm, source, tag), status)
        return _Message.Recv(find(comm, source, tag), buf, status)

    def keep(
        comm: Watched, made: Any, begin: int, end: int, peer: Any, tag: Any, given: tuple
    ) -> Any:
        kept(comm, (name, RECEIVE, comm.identity, *got(comm, given[-1]), begin, end, None, None))
        return made

    return Shape(keep, anyone=anyone)


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

    def anyone(comm: Watched, buf: Any, source: int, tag: int) -> Any:
        found = come(comm, tag, find)
        if found is None:
            return plain(comm, buf, source, tag)
        return _Message.irecv(found) if pickled else _Message.Irecv(found, buf)

    def keep(
        comm: Watched, made: Any, begin: int, end: int, peer: Any, tag: Any, given: tuple
    ) -> Any:
        call = (name, RECEIVE, comm.identity, peer, tag, 0, begin, end, None, None)
        return kept(comm, call, made)

    return Shape(keep, REQUEST, anyone)


def _probe(name: str, plain: Method) -> Shape:
    """Probe, Iprobe: a loop that polls in vain becomes one recorded call.

    Mprobe, Improbe: the message found is traced in its turn.
    """
    matched = name.lower() in ("mprobe", "improbe")

    def keep(
        comm: Watched, made: Any, begin: int, end: int, peer: Any, tag: Any, given: tuple
    ) -> Any:
        found = got(comm, given[-1]) if made else (peer, tag, 0)
        call = (name, PROBE, comm.identity, *found, begin, end, None, None)
        comm.recorder.add(call) if made else comm.recorder.poll(list(call))
        return traced_message(made, comm) if matched else made

    return Shape(keep, MESSAGE if matched else PLAIN)


def _exchange(name: str, plain: Method) -> Shape:
    """Sendrecv, Sendrecv_replace, sendrecv: the last is recorded as mpi4py does it."""
    pickled = name == "sendrecv"

    def anyone(comm: Watched, sent: Any, dest: int, sendtag: int, *more: Any) -> Any:
        *into, source, recvtag, status = more
        if pickled:  # with a buffer mpi4py posts a receive, which may lose its message
            return plain(comm, sent, dest, sendtag, None, source, recvtag, status)
        if into:
            return _from_anyone(comm, sent, dest, sendtag, into[0], recvtag, status)
        return _from_anyone(comm, _copied(sent), dest, sendtag, sent, recvtag, status)

    def packed(
        comm: Watched, sent: Any, dest: int, sendtag: int, buf: Any, source: int, tag: int, got: Any
    ) -> Any:
        request = _Comm.Isend(comm, sent, dest, sendtag)
        result = _Comm.recv(comm, None if source == _ANY_SOURCE else buf, source, tag, got)
        request.Wait()
        return result

    def keep(
        comm: Watched, made: Any, begin: int, end: int, peers: tuple, tag: Any, given: tuple
    ) -> Any:
        size, received = len(given[0][0]) if pickled else nbytes(given[0]), got(comm, given[-1])
        kept(
            comm,
            (name, EXCHANGE, comm.identity, peers[0], tag, size, begin, end, None, received),
        )
        return made

    return Shape(keep, anyone=anyone, packed=packed if pickled else None)


def _iexchange(name: str, plain: Method) -> Shape:
    """Isendrecv, Isendrecv_replace."""

    def keep(
        comm: Watched, made: Any, begin: int, end: int, peers: tuple, tag: Any, given: tuple
    ) -> Any:
        size = nbytes(given[0])
        call = (name, EXCHANGE, comm.identity, peers[0], tag, size, begin, end, None, None)
        return kept(comm, call, made)

    return Shape(keep, REQUEST)


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
