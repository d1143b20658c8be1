"""Watched sends, receives and probes: one closure for each shape of call.

Each maker here takes a method's name and mpi4py's own method, and returns what takes its place: it
notes the call in ``recorder.current`` while it is under way and, while the recorder records,
keeps it. Since watching is on for every call, the closures name their parameters one by one: to
pass on ``*args`` costs 0.1 µs, keywords 0.3. The defaults are mpi4py's (see
:mod:`helpers.tracing.communicator`). Sizes are those of the messages: what a send sent, what a
receive got.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns as now
from typing import Any

from mpi4py import MPI

from helpers.tracing.activity import PROBE, RECEIVE, SEND, Watched
from helpers.tracing.requests import got, traced_message, traced_request
from helpers.tracing.sizes import nbytes

Method = Callable[..., Any]
# names, and what makes a watched method of (name, mpi4py's method)
Table = tuple[tuple[str, Callable[[str, Method], Method]], ...]

_ANY_SOURCE, _ANY_TAG = MPI.ANY_SOURCE, MPI.ANY_TAG
_BYTE, _Status = MPI.BYTE, MPI.Status
_Comm: Any = MPI.Comm
_Message: Any = MPI.Message


def _send(name: str, plain: Method) -> Method:
    """Send, Isend and their relatives: of a buffer."""
    immediate = name[0] == "I"

    def call(self: Watched, buf: Any, dest: int, tag: int) -> Any:
        recorder, peer = self.recorder, self._world.get(dest, dest)
        recording, begin = recorder.events is not None, now()
        recorder.current = (name, peer, tag, begin, self._members)
        try:
            result = plain(self, buf, dest, tag)
        finally:
            recorder.current = None
        if not recording:
            return traced_request(result, self, name, peer, tag) if immediate else result
        end = now()
        kept = (name, SEND, self.identity, peer, tag, nbytes(buf), begin, end, None, None)
        return keep(self, kept, result if immediate else None)

    return call


def _send_pickled(name: str, plain: Method) -> Method:
    """Send and its relatives on an object: recorded, it is pickled here, so that it is counted."""
    of_buffer = getattr(_Comm, name.capitalize())
    immediate = name[0] == "i"

    def call(self: Watched, obj: Any, dest: int, tag: int) -> Any:
        recorder, peer = self.recorder, self._world.get(dest, dest)
        recording, begin = recorder.events is not None, now()
        if recording:
            data = MPI.pickle.dumps(obj)
        recorder.current = (name, peer, tag, begin, self._members)
        try:
            if recording:
                result = of_buffer(self, [data, _BYTE], dest, tag)
            else:
                result = plain(self, obj, dest, tag)
        finally:
            recorder.current = None
        if not recording:
            return traced_request(result, self, name, peer, tag) if immediate else result
        end = now()
        kept = (name, SEND, self.identity, peer, tag, len(data), begin, end, None, None)
        return keep(self, kept, result if immediate else None)

    return call


def keep(comm: Watched, call: tuple, request: MPI.Request | None) -> MPI.Request | None:
    """Keep a call while recording; return its request, if any, which will complete the call."""
    if request is None:
        comm.recorder.add(call)
        return None
    later = list(call)
    comm.recorder.add(later)
    made = traced_request(request, comm, call[0], call[3], call[4], later)
    if comm.recorder.held is not None:
        comm.recorder.held.append(made)
    return made


def _receive(name: str, plain: Method) -> Method:
    """Recv, recv: from any source the message is found first, see :func:`come`."""
    pickled = name == "recv"
    find = _Comm.mprobe if pickled else _Comm.Mprobe

    def call(self: Watched, buf: Any, source: int, tag: int, status: Any) -> Any:
        recorder, peer = self.recorder, self._world.get(source, source)
        recording, begin = recorder.events is not None, now()
        if recording and status is None:
            status = _Status()
        shown = "ANY_TAG" if tag == _ANY_TAG else tag
        recorder.current = (name, peer, shown, begin, self._members)
        try:
            if source != _ANY_SOURCE:
                result = plain(self, buf, source, tag, status)
            elif pickled:  # into memory of the message's size, whatever buf is
                result = _Message.recv(find(self, source, tag), status)
            else:
                result = _Message.Recv(find(self, source, tag), buf, status)
        finally:
            recorder.current = None
        if recording:
            end = now()
            peer, tag, size = got(self, status)
            keep(
                self, (name, RECEIVE, self.identity, peer, tag, size, begin, end, None, None), None
            )
        return result

    return call


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


def _ireceive(name: str, plain: Method) -> Method:
    """Irecv, irecv: peer, tag and size are filled in when the request is done."""
    pickled = name == "irecv"
    find = _Comm.improbe if pickled else _Comm.Improbe

    def call(self: Watched, buf: Any, source: int, tag: int) -> Any:
        recorder, peer = self.recorder, self._world.get(source, source)
        recording, begin = recorder.events is not None, now()
        shown = "ANY_TAG" if tag == _ANY_TAG else tag
        recorder.current = (name, peer, shown, begin, self._members)
        try:
            found = come(self, tag, find) if source == _ANY_SOURCE else None
            if found is None:
                result = plain(self, buf, source, tag)
            else:
                result = _Message.irecv(found) if pickled else _Message.Irecv(found, buf)
        finally:
            recorder.current = None
        if not recording:
            return traced_request(result, self, name, peer, shown)
        end = now()
        kept = (name, RECEIVE, self.identity, peer, shown, 0, begin, end, None, None)
        return keep(self, kept, result)

    return call


def _probe(name: str, plain: Method) -> Method:
    """Probe, Iprobe: a loop that polls in vain becomes one recorded call.

    Mprobe, Improbe: the message found is traced in its turn.
    """
    matched = name[0] in "Mm" or name.lower() == "improbe"

    def call(self: Watched, source: int, tag: int, status: Any) -> Any:
        recorder, peer = self.recorder, self._world.get(source, source)
        recording, begin = recorder.events is not None, now()
        if recording and status is None:
            status = _Status()
        shown: Any = "ANY_TAG" if tag == _ANY_TAG else tag
        recorder.current = (name, peer, shown, begin, self._members)
        try:
            result = plain(self, source, tag, status)
        finally:
            recorder.current = None
        if recording:
            end = now()
            peer, shown, size = got(self, status) if result else (peer, shown, 0)
            kept = (name, PROBE, self.identity, peer, shown, size, begin, end, None, None)
            recorder.add(kept) if result else recorder.poll(list(kept))
        return traced_message(result, self) if matched else result

    return call


TABLE: Table = (
    ("Send Bsend Ssend Rsend Isend Ibsend Issend Irsend", _send),
    ("send bsend ssend isend ibsend issend", _send_pickled),
    ("Recv recv", _receive),
    ("Irecv irecv", _ireceive),
    ("Probe probe Iprobe iprobe Mprobe mprobe Improbe improbe", _probe),
)
