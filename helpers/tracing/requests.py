"""Requests and matched messages that tell what they wait for."""

from __future__ import annotations

import functools
from time import perf_counter_ns

from mpi4py import MPI

from helpers.tracing.activity import (
    BYTES,
    COLLECTIVE,
    DONE,
    EXCHANGE,
    KIND,
    MORE,
    PEER,
    RECEIVE,
    TAG,
    WAIT,
    Call,
)

_Request, _Prequest, _Message, _Status = MPI.Request, MPI.Prequest, MPI.Message, MPI.Status
_BYTE = MPI.BYTE


def timed(comm, name: str, peer, tag, plain, *arguments, **more) -> tuple:
    """Call ``plain(*arguments, **more)`` as the current call; return (result, begin_ns, end_ns)."""
    recorder = comm.recorder
    begin = perf_counter_ns()
    recorder.current = (name, peer, tag, begin, comm._members)
    try:
        return plain(*arguments, **more), begin, perf_counter_ns()
    finally:
        recorder.current = None


def got(comm, status: MPI.Status) -> tuple:
    """Return (source's world rank, tag, bytes) of the message that arrived."""
    source = status.Get_source()
    return comm._world.get(source, source), status.Get_tag(), max(status.Get_count(_BYTE), 0)


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


def traced_request(request, comm, call: str, peer, tag, start=None, record: list | None = None):
    """Return a copy of ``request`` that knows which call made it, and its record if there is one.

    ``start`` is (kind, bytes) for a persistent request: what each Start will move.
    """
    if type.__instancecheck__(_Prequest, request):
        made = _Prequest.__new__(TracedPrequest, request)
    else:
        made = _Request.__new__(TracedRequest, request)
    made._comm, made._call, made._peer, made._tag = comm, call, peer, tag
    made._start, made._record = start, record
    return made


def _known(requests) -> list:
    return [r for r in requests if getattr(r, "_comm", None) is not None and r]


def _start(requests, name: str, plain) -> None:
    known = _known(requests)
    if not known:
        return plain()
    first = known[0]
    _, begin, end = timed(first._comm, name, _peers(known), first._tag, plain)
    recorder = first._comm.recorder
    if recorder.events is None:
        return
    for request in known:
        kind, size = request._start or (COLLECTIVE, 0)
        comm, peer, tag = request._comm.identity, request._peer, request._tag
        request._record = [name, kind, comm, peer, tag, size, begin, end, None, None]
        recorder.add(request._record)


def _peers(requests):
    """The peers waited for: one, or a tuple of several different ones."""
    peers = dict.fromkeys(r._peer for r in requests)
    return next(iter(peers)) if len(peers) == 1 else tuple(peers)


def _settle(finished, end: int) -> tuple[Call, ...]:
    """Complete the records of the (request, status) pairs that are done; return those records."""
    records = []
    for request, status in finished:
        record = getattr(request, "_record", None)
        if record is None:
            continue
        request._record = None
        record[DONE] = end
        if record[KIND] == RECEIVE:
            record[PEER], record[TAG], record[BYTES] = got(request._comm, status)
        elif record[KIND] == EXCHANGE:
            record[MORE] = got(request._comm, status)
        records.append(record)
    return tuple(records)


def _wait_record(name: str, request, peer, done: tuple, begin: int, end: int) -> tuple:
    """The record of a wait: with one call completed it says what that call got."""
    tag, size = request._tag, sum(record[BYTES] for record in done)
    if len(done) == 1:
        peer, tag = done[0][PEER], done[0][TAG]
    return name, WAIT, request._comm.identity, peer, tag, size, begin, end, None, done or None


def _one(name: str):
    """Make Wait, wait, Test or test."""
    plain = getattr(_Request, name)

    def call(self, status=None):
        comm = self._comm
        if comm is None:
            return plain(self, status)
        recorder = comm.recorder
        recording = recorder.events is not None
        if recording and status is None:
            status = _Status()
        shown = f"{name}({self._call})"
        result, begin, end = timed(comm, shown, self._peer, self._tag, plain, self, status)
        if not recording:
            return result
        if name == "Wait" or name == "wait" or (result if name == "Test" else result[0]):
            done = _settle([(self, status)], end)
            recorder.add(_wait_record(name, self, self._peer, done, begin, end))
        else:
            recorder.poll(list(_wait_record(name, self, self._peer, (), begin, end)))
        return result

    return functools.wraps(plain)(call)


# Which requests a call on a list of them completed, as (request, status) pairs; results are plain,
# or in a tuple with the received objects, or with a flag.


def _done_all(requests, result, statuses):
    flag = result[0] if isinstance(result, tuple) else result
    return zip(requests, statuses, strict=False) if flag is not False else ()


def _done_any(requests, result, status):
    index = result[0] if isinstance(result, tuple) else result
    return [(requests[index], status)] if index != MPI.UNDEFINED else ()


def _done_some(requests, result, statuses):
    indices = result[0] if isinstance(result, tuple) else result
    return [(requests[i], status) for i, status in zip(indices or (), statuses, strict=False)]


def _several(verb: str, which: str):
    """Make Waitall, testany and the rest of the calls on a list of requests."""
    name = verb + which
    plain = getattr(_Request, name)
    find = {"all": _done_all, "any": _done_any, "some": _done_some}[which]

    def call(cls, requests, statuses=None):
        known = _known(requests)
        if not known:
            return plain(requests, statuses)
        first, peers = known[0], _peers(known)
        recorder = first._comm.recorder
        recording = recorder.events is not None
        if recording and statuses is None:
            statuses = _Status() if which == "any" else []
        shown = name
        if which == "all":  # of the others the bare name says that one of the peers is enough
            shown = f"{name}({'/'.join(sorted({r._call for r in known}))})"
        result, begin, end = timed(first._comm, shown, peers, first._tag, plain, requests, statuses)
        if recording:
            finished = list(find(requests, result, statuses))
            done = _settle(finished, end)
            record = _wait_record(name, first, peers, done, begin, end)
            if finished or verb in ("Wait", "wait"):
                recorder.add(record)
            else:
                recorder.poll(list(record))
        return result

    if which == "any":  # the parameter's name is part of the interface
        return classmethod(
            functools.wraps(plain)(lambda cls, requests, status=None: call(cls, requests, status))
        )
    return classmethod(functools.wraps(plain)(call))


for _class in (TracedRequest, TracedPrequest):
    for _verb in ("Wait", "wait", "Test", "test"):
        setattr(_class, _verb, _one(_verb))
        for _which in ("all", "any", "some"):
            setattr(_class, _verb + _which, _several(_verb, _which))


class TracedMessage(_Message, metaclass=_AnyRequest):
    """An ``MPI.Message`` found by a matched probe, to be received by ``recv`` or ``Irecv``."""

    __slots__ = ("_comm",)

    def __new__(cls, message=None, comm=None):
        """Copy the handle of ``message``, found on the traced communicator ``comm``."""
        self = _Message.__new__(cls, message)
        self._comm = comm
        return self


def traced_message(message: MPI.Message | None, comm) -> TracedMessage | None:
    """Return a traced copy of ``message`` (None stays None: a probe that found nothing)."""
    return None if message is None else TracedMessage(message, comm)


def _receiver(name: str):
    """Make Recv, recv, Irecv or irecv of a matched message."""
    plain = getattr(_Message, name)
    at = {"Recv": 1, "recv": 0}.get(name)  # where the status stands

    def call(self, *arguments, **keywords):
        comm = self._comm
        if comm is None:
            return plain(self, *arguments, **keywords)
        status = None
        if at is not None:
            status = arguments[at] if len(arguments) > at else keywords.get("status")
            status = _Status() if status is None else status
            arguments, keywords = arguments[:at], {**keywords, "status": status}
        result, begin, end = timed(
            comm, name, "matched", None, lambda: plain(self, *arguments, **keywords)
        )
        peer, tag, size = got(comm, status) if status else ("matched", None, 0)
        record = [name, RECEIVE, comm.identity, peer, tag, size, begin, end, None, None]
        if comm.recorder.events is not None:
            comm.recorder.add(record)
        else:
            record = None
        if status is None:
            return traced_request(result, comm, name, "matched", None, None, record)
        return result

    return functools.wraps(plain)(call)


def _prober(name: str, on_comm: str):
    """Make Message.Probe and its relatives, which are a communicator's matched probes."""
    plain = getattr(_Message, name)

    def call(cls, comm, *arguments, **keywords):
        return getattr(comm, on_comm)(*arguments, **keywords)

    return classmethod(functools.wraps(plain)(call))


for _name in ("Recv", "recv", "Irecv", "irecv"):
    setattr(TracedMessage, _name, _receiver(_name))
for _name, _on_comm in {
    "Probe": "Mprobe",
    "probe": "mprobe",
    "Iprobe": "Improbe",
    "iprobe": "improbe",
}.items():
    setattr(TracedMessage, _name, _prober(_name, _on_comm))
