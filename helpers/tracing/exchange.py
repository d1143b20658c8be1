"""Watched calls that send and receive at once (see :mod:`helpers.tracing.point_to_point`)."""

from __future__ import annotations

from time import perf_counter_ns as now
from typing import Any

import numpy as np
from mpi4py import MPI

from helpers.tracing.activity import EXCHANGE, Watched
from helpers.tracing.point_to_point import Method, Table, keep
from helpers.tracing.requests import got, traced_request
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
        recorder, peer = self.recorder, self._world.get(dest, dest)
        recording, begin = recorder.events is not None, now()
        if recording and status is None:
            status = _Status()
        peers = (peer, self._world.get(source, source))
        recorder.current = (name, peers, sendtag, begin, self._members)
        try:
            if source == _ANY_SOURCE:
                result = _from_anyone(self, sendbuf, dest, sendtag, recvbuf, recvtag, status)
            else:
                result = plain(self, sendbuf, dest, sendtag, recvbuf, source, recvtag, status)
        finally:
            recorder.current = None
        if recording:
            _keep_exchange(self, name, peer, sendtag, begin, now(), nbytes(sendbuf), status)
        return result

    return call


def _exchange_replace(name: str, plain: Method) -> Method:
    """Sendrecv_replace."""

    def call(
        self: Watched, buf: Any, dest: int, sendtag: int, source: int, recvtag: int, status: Any
    ) -> Any:
        recorder, peer = self.recorder, self._world.get(dest, dest)
        recording, begin = recorder.events is not None, now()
        if recording and status is None:
            status = _Status()
        peers = (peer, self._world.get(source, source))
        recorder.current = (name, peers, sendtag, begin, self._members)
        try:
            if source == _ANY_SOURCE:
                result = _from_anyone(self, _copied(buf), dest, sendtag, buf, recvtag, status)
            else:
                result = plain(self, buf, dest, sendtag, source, recvtag, status)
        finally:
            recorder.current = None
        if recording:
            _keep_exchange(self, name, peer, sendtag, begin, now(), nbytes(buf), status)
        return result

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
        recorder, peer = self.recorder, self._world.get(dest, dest)
        recording, begin = recorder.events is not None, now()
        if recording:
            data = MPI.pickle.dumps(sendobj)
            status = _Status() if status is None else status
        peers = (peer, self._world.get(source, source))
        recorder.current = (name, peers, sendtag, begin, self._members)
        if source == _ANY_SOURCE:
            recvbuf = None  # with a buffer mpi4py posts a receive, which may lose its message
        try:
            if recording:
                request = _Comm.Isend(self, [data, _BYTE], dest, sendtag)
                result = _Comm.recv(self, recvbuf, source, recvtag, status)
                request.Wait()
            else:
                result = plain(self, sendobj, dest, sendtag, recvbuf, source, recvtag, status)
        finally:
            recorder.current = None
        if recording:
            _keep_exchange(self, name, peer, sendtag, begin, now(), len(data), status)
        return result

    return call


def _keep_exchange(
    comm: Watched, name: str, peer: Any, tag: int, begin: int, end: int, size: int, status: Any
) -> None:
    received = got(comm, status)
    comm.recorder.add((name, EXCHANGE, comm.identity, peer, tag, size, begin, end, None, received))


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
        recorder, peer = self.recorder, self._world.get(dest, dest)
        recording, begin = recorder.events is not None, now()
        peers = (peer, self._world.get(source, source))
        recorder.current = (name, peers, sendtag, begin, self._members)
        try:
            result = plain(self, sendbuf, dest, sendtag, recvbuf, source, recvtag)
        finally:
            recorder.current = None
        if not recording:
            return traced_request(result, self, name, peers, sendtag)
        end, size = now(), nbytes(sendbuf)
        kept = (name, EXCHANGE, self.identity, peer, sendtag, size, begin, end, None, None)
        return keep(self, kept, result)

    return call


def _iexchange_replace(name: str, plain: Method) -> Method:
    """Isendrecv_replace."""

    def call(self: Watched, buf: Any, dest: int, sendtag: int, source: int, recvtag: int) -> Any:
        recorder, peer = self.recorder, self._world.get(dest, dest)
        recording, begin = recorder.events is not None, now()
        peers = (peer, self._world.get(source, source))
        recorder.current = (name, peers, sendtag, begin, self._members)
        try:
            result = plain(self, buf, dest, sendtag, source, recvtag)
        finally:
            recorder.current = None
        if not recording:
            return traced_request(result, self, name, peers, sendtag)
        end, size = now(), nbytes(buf)
        kept = (name, EXCHANGE, self.identity, peer, sendtag, size, begin, end, None, None)
        return keep(self, kept, result)

    return call


TABLE: Table = (
    ("Sendrecv", _exchange),
    ("Sendrecv_replace", _exchange_replace),
    ("sendrecv", _exchange_pickled),
    ("Isendrecv", _iexchange),
    ("Isendrecv_replace", _iexchange_replace),
)
