"""Watched calls that send and receive at once (see :mod:`helpers.tracing.point_to_point`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from mpi4py import MPI

from helpers.tracing.activity import EXCHANGE, Watched
from helpers.tracing.point_to_point import Method, Table, keep
from helpers.tracing.requests import got, timed, traced_request
from helpers.tracing.sizes import nbytes

_BYTE, _Status = MPI.BYTE, MPI.Status
_Comm: Any = MPI.Comm
_Message: Any = MPI.Message
_ANY_SOURCE = MPI.ANY_SOURCE


def _from_anyone(
    comm: Watched, sent: Any, dest: int, sendtag: int, into: Any, tag: int, status: Any
) -> Any:
    """Send, and receive from any source a message that is found first.

    :func:`helpers.tracing.point_to_point.come` says why.
    """
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


def _exchange(name: str, plain: Method) -> Method:
    """Sendrecv."""

    def call(
        self: Watched,
        sendbuf: Any,
        dest: int,
        sendtag: int,
        recvbuf: Any,
        source: int,
        recvtag: int,
        status: Any,
    ) -> Any:
        def move(status: Any) -> Any:
            if source == _ANY_SOURCE:
                return _from_anyone(self, sendbuf, dest, sendtag, recvbuf, recvtag, status)
            return plain(self, sendbuf, dest, sendtag, recvbuf, source, recvtag, status)

        return _kept(self, name, dest, sendtag, source, status, move, lambda: nbytes(sendbuf))

    return call


def _exchange_replace(name: str, plain: Method) -> Method:
    """Sendrecv_replace."""

    def call(
        self: Watched, buf: Any, dest: int, sendtag: int, source: int, recvtag: int, status: Any
    ) -> Any:
        def move(status: Any) -> Any:
            if source == _ANY_SOURCE:
                return _from_anyone(self, _copied(buf), dest, sendtag, buf, recvtag, status)
            return plain(self, buf, dest, sendtag, source, recvtag, status)

        return _kept(self, name, dest, sendtag, source, status, move, lambda: nbytes(buf))

    return call


def _exchange_pickled(name: str, plain: Method) -> Method:
    """Lower-case sendrecv: recorded, it is done as mpi4py does it, with the bytes at hand."""

    def call(
        self: Watched,
        sendobj: Any,
        dest: int,
        sendtag: int,
        recvbuf: Any,
        source: int,
        recvtag: int,
        status: Any,
    ) -> Any:
        data = None if self.recorder.events is None else MPI.pickle.dumps(sendobj)
        if source == _ANY_SOURCE:
            recvbuf = None  # with a buffer mpi4py posts a receive, which may lose its message

        def move(status: Any) -> Any:
            if data is None:
                return plain(self, sendobj, dest, sendtag, recvbuf, source, recvtag, status)
            request = _Comm.Isend(self, [data, _BYTE], dest, sendtag)
            result = _Comm.recv(self, recvbuf, source, recvtag, status)
            request.Wait()
            return result

        return _kept(self, name, dest, sendtag, source, status, move, lambda: len(data or b""))

    return call


def _kept(
    comm: Watched,
    name: str,
    dest: int,
    tag: int,
    source: int,
    status: Any,
    move: Callable[[Any], Any],
    size: Callable[[], int],
) -> Any:
    """Do an exchange, given its status; while recording, keep it."""
    recorder, peer = comm.recorder, comm._world.get(dest, dest)
    recording = recorder.events is not None
    if recording and status is None:
        status = _Status()
    peers = (peer, comm._world.get(source, source))
    result, begin, end = timed(comm, name, peers, tag, move, status)
    if recording:
        received = got(comm, status)
        recorder.add((name, EXCHANGE, comm.identity, peer, tag, size(), begin, end, None, received))
    return result


def _iexchange(name: str, plain: Method) -> Method:
    """Isendrecv."""

    def call(
        self: Watched,
        sendbuf: Any,
        dest: int,
        sendtag: int,
        recvbuf: Any,
        source: int,
        recvtag: int,
    ) -> Any:
        arguments = (sendbuf, dest, sendtag, recvbuf, source, recvtag)
        return _begun(self, name, dest, sendtag, source, plain, arguments)

    return call


def _iexchange_replace(name: str, plain: Method) -> Method:
    """Isendrecv_replace."""

    def call(self: Watched, buf: Any, dest: int, sendtag: int, source: int, recvtag: int) -> Any:
        arguments = (buf, dest, sendtag, source, recvtag)
        return _begun(self, name, dest, sendtag, source, plain, arguments)

    return call


def _begun(
    comm: Watched, name: str, dest: int, tag: int, source: int, plain: Method, arguments: tuple
) -> Any:
    """Begin an exchange; return its request."""
    recording, peer = comm.recorder.events is not None, comm._world.get(dest, dest)
    peers = (peer, comm._world.get(source, source))
    result, begin, end = timed(comm, name, peers, tag, plain, comm, *arguments)
    if not recording:
        return traced_request(result, comm, name, peers, tag)
    size = nbytes(arguments[0])
    return keep(
        comm, (name, EXCHANGE, comm.identity, peer, tag, size, begin, end, None, None), result
    )


TABLE: Table = (
    ("Sendrecv", _exchange),
    ("Sendrecv_replace", _exchange_replace),
    ("sendrecv", _exchange_pickled),
    ("Isendrecv", _iexchange),
    ("Isendrecv_replace", _iexchange_replace),
)
