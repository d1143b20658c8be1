"""Requests and matched messages that tell what they wait for."""

from __future__ import annotations

import functools
from time import perf_counter_ns

from mpi4py import MPI

from helpers.cluster.activity import Record

_Request, _Prequest, _Message = MPI.Request, MPI.Prequest, MPI.Message
UNDEFINED = MPI.UNDEFINED


class _AnyRequest(type):
    """Plain requests (of files, of windows) count as instances of the class in their place."""

    def __instancecheck__(cls, instance) -> bool:
        return type.__instancecheck__(cls, instance) or isinstance(instance, cls.__mro__[2])


class _Watched:
    __slots__ = ()

    def __new__(cls, request=None):
        self = cls.__mro__[2].__new__(cls, request)
        self._comm = self._call = self._peer = self._tag = self._record = self._start = None
        return self


_SLOTS = ("_call", "_comm", "_peer", "_record", "_start", "_tag")


class TracedRequest(_Watched, _Request, metaclass=_AnyRequest):
    """An ``MPI.Request`` whose waits and tests are reported and recorded."""

    __slots__ = _SLOTS


class TracedPrequest(_Watched, _Prequest, metaclass=_AnyRequest):
    """A persistent ``MPI.Prequest``: each ``Start`` is recorded as a message of its own."""

    __slots__ = _SLOTS

    def Start(self) -> None:  # noqa: N802 - MPI's name
        """Begin the communication once more."""
        _start([self], "Start", lambda: _Prequest.Start(self))

    @classmethod
    def Startall(cls, requests) -> None:  # noqa: N802
        """Begin the communication of every request in the list."""
        _start(requests, "Startall", lambda: _Prequest.Startall(requests))


def traced_request(request, comm, call, peer, tag, record: Record | None, start=None):
    """Return a copy of ``request`` that knows which call made it, and its record if there is one.

    ``start`` is (kind, bytes) for a persistent request: what each Start will move.
    """
    cls = TracedPrequest if type.__instancecheck__(_Prequest, request) else TracedRequest
    made = cls.__mro__[2].__new__(cls, request)
    made._comm, made._call, made._peer, made._tag = comm, call, peer, tag
    made._record, made._start = record, start
    return made


def _start(requests, name: str, plain) -> None:
    known = [r for r in requests if getattr(r, "_comm", None) is not None]
    if not known:
        return plain()
    recorder = known[0]._comm.recorder
    events, begin = recorder.events, perf_counter_ns()
    recorder.current = (name, _peers(known), known[0]._tag, begin, known[0]._comm._size)
    try:
        plain()
        end = perf_counter_ns()
    finally:
        recorder.current = None
    for request in known:
        request._record = None
        if events is not None:
            kind, size = request._start or ("collective", 0)
            comm, peer, tag = request._comm.identity, request._peer, request._tag
            sent = (comm, peer, tag, size) if kind == "send" else None
            received = (comm, None, None, 0) if kind == "receive" else None
            request._record = [name, comm, peer, tag, size, begin, end, sent, received, None, ()]
            recorder.add(events, request._record)


def _peers(requests):
    """The peers waited for: one, or a tuple of several different ones."""
    peers = dict.fromkeys(r._peer for r in requests)
    return next(iter(peers)) if len(peers) == 1 else tuple(peers)


def _settle(request, status: MPI.Status | None, end: int) -> Record | None:
    """Note in the request's record that it is done, and what a receive got; return the record."""
    record, request._record = request._record, None
    if record is None:
        return None
    record[9] = end
    if record[8] is not None and status is not None:
        source = status.Get_source()
        source = request._comm._world.get(source, source)
        size = status.Get_count(MPI.BYTE)
        record[8] = (record[1], source, status.Get_tag(), max(size, 0))
        if record[7] is None:
            record[2:5] = record[8][1:]
    return record


def _one(name: str):
    """Make Wait, wait, Test or test."""
    plain = getattr(_Request, name)
    tests = name in ("Test", "test")

    def call(self, status=None):
        comm = self._comm
        if comm is None:
            return plain(self, status)
        recorder = comm.recorder
        events = recorder.events
        begin = perf_counter_ns()
        recorder.current = (f"{name}({self._call})", self._peer, self._tag, begin, comm._size)
        if events is not None and status is None:
            status = MPI.Status()
        try:
            result = plain(self, status)
            end = perf_counter_ns()
        finally:
            recorder.current = None
        if events is None:
            return result
        if tests and not (result if name == "Test" else result[0]):
            _record(recorder.poll, events, name, self, (), begin, end)
        else:
            done = _settle(self, status, end)
            _record(recorder.add, events, name, self, (done,) if done else (), begin, end)
        return result

    return functools.wraps(plain)(call)


def _record(add, events, name, request, done: tuple, begin: int, end: int, peer=None) -> None:
    peer = request._peer if peer is None else peer
    tag, size = request._tag, 0
    if len(done) == 1 and done[0][2] is not None:
        peer, tag = done[0][2:4]
    size = sum(record[4] for record in done)
    add(events, [name, request._comm.identity, peer, tag, size, begin, end, None, None, None, done])


def _done_all(requests, result, statuses):
    flag = result[0] if isinstance(result, tuple) else result
    return list(zip(requests, statuses, strict=False)) if flag is not False else []


def _done_any(requests, result, status):
    index = result[0] if isinstance(result, tuple) else result
    flag = result[1] if isinstance(result, tuple) and isinstance(result[1], bool) else True
    return [(requests[index], status)] if flag and index != UNDEFINED else []


def _done_some(requests, result, statuses):
    indices = result[0] if isinstance(result, tuple) else result
    return [(requests[i], status) for i, status in zip(indices or [], statuses, strict=False)]


def _several(name: str):
    """Make Waitall, testany and the rest of the calls on a list of requests."""
    plain = getattr(_Request, name)
    which = name[4:]
    done_by = {"all": _done_all, "any": _done_any, "some": _done_some}[which]

    def call(cls, requests, statuses=None):
        known = [r for r in requests if getattr(r, "_comm", None) is not None and r]
        if not known:
            return plain(requests, statuses)
        first = known[0]
        recorder = first._comm.recorder
        events = recorder.events
        begin = perf_counter_ns()
        calls = {r._call for r in known}
        shown = f"{name}({'/'.join(sorted(calls))})"
        peers = _peers(known)
        recorder.current = (shown, peers, first._tag, begin, first._comm._size)
        if events is not None and statuses is None:
            statuses = MPI.Status() if which == "any" else []
        try:
            result = plain(requests, statuses)
            end = perf_counter_ns()
        finally:
            recorder.current = None
        if events is None:
            return result
        finished = done_by(requests, result, statuses)
        if finished or not name.lower().startswith("test"):
            done = (_settle(r, s, end) for r, s in finished if getattr(r, "_comm", None))
            done = tuple(record for record in done if record)
            _record(recorder.add, events, name, first, done, begin, end, peers)
        else:
            _record(recorder.poll, events, name, first, (), begin, end, peers)
        return result

    if which == "any":  # the parameter's name is part of the interface

        def named(cls, requests, status=None):
            return call(cls, requests, status)
    else:
        named = call
    return classmethod(functools.wraps(plain)(named))


for _class in (TracedRequest, TracedPrequest):
    for _name in ("Wait", "wait", "Test", "test"):
        setattr(_class, _name, _one(_name))
    for _verb in ("Wait", "wait", "Test", "test"):
        for _which in ("all", "any", "some"):
            setattr(_class, _verb + _which, _several(_verb + _which))


class TracedMessage(_Message, metaclass=_AnyRequest):
    """An ``MPI.Message`` found by a matched probe, to be received by ``recv`` or ``Irecv``."""

    __slots__ = ("_comm",)

    def __new__(cls, message=None, comm=None):
        """Copy the handle of ``message``, found on the traced communicator ``comm``."""
        self = _Message.__new__(cls, message)
        self._comm = comm
        return self

    @classmethod
    def Probe(cls, comm, *args, **kwargs):  # noqa: N802
        """Probe ``comm`` for a message, waiting for one."""
        return comm.Mprobe(*args, **kwargs)

    @classmethod
    def Iprobe(cls, comm, *args, **kwargs):  # noqa: N802
        """Probe ``comm`` for a message; None if there is none yet."""
        return comm.Improbe(*args, **kwargs)

    @classmethod
    def probe(cls, comm, *args, **kwargs):
        """Probe ``comm`` for a pickled message, waiting for one."""
        return comm.mprobe(*args, **kwargs)

    @classmethod
    def iprobe(cls, comm, *args, **kwargs):
        """Probe ``comm`` for a pickled message; None if there is none yet."""
        return comm.improbe(*args, **kwargs)

    def Recv(self, buf, status=None) -> None:  # noqa: N802
        """Receive the message into a buffer."""
        return self._receive("Recv", lambda s: _Message.Recv(self, buf, s), status)

    def recv(self, status=None):
        """Receive and unpickle the message."""
        return self._receive("recv", lambda s: _Message.recv(self, s), status)

    def Irecv(self, buf):  # noqa: N802
        """Begin to receive the message into a buffer; return a request."""
        return self._begin("Irecv", lambda: _Message.Irecv(self, buf))

    def irecv(self):
        """Begin to receive the message; return a request."""
        return self._begin("irecv", lambda: _Message.irecv(self))

    def _receive(self, name, plain, status):
        comm = self._comm
        if comm is None:
            return plain(status)
        recorder = comm.recorder
        events, begin = recorder.events, perf_counter_ns()
        status = status or MPI.Status()
        recorder.current = (name, "matched", None, begin, comm._size)
        try:
            result = plain(status)
            end = perf_counter_ns()
        finally:
            recorder.current = None
        if events is not None:
            source = status.Get_source()
            source = comm._world.get(source, source)
            half = (comm.identity, source, status.Get_tag(), status.Get_count(MPI.BYTE))
            recorder.add(events, [name, *half, begin, end, None, half, None, ()])
        return result

    def _begin(self, name, plain):
        comm = self._comm
        begin = perf_counter_ns()
        request = plain()
        if comm is None:
            return request
        events, record = comm.recorder.events, None
        if events is not None:
            half = (comm.identity, None, None, 0)
            end = perf_counter_ns()
            record = [name, comm.identity, "matched", None, 0, begin, end, None, half, None, ()]
            comm.recorder.add(events, record)
        return traced_request(request, comm, name, "matched", None, record)
