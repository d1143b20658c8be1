"""Requests and matched messages that tell what they wait for."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter_ns
from typing import Any, TypeAlias

from mpi4py import MPI

from helpers.tracing.activity import (
    BYTES,
    DONE,
    EXCHANGE,
    KIND,
    MORE,
    PEER,
    RECEIVE,
    TAG,
    WAIT,
    Call,
    Watched,
)

_Request: TypeAlias = MPI.Request  # install() puts ours in their place
_Message: TypeAlias = MPI.Message
_Status, _BYTE = MPI.Status, MPI.BYTE


def timed(
    comm: Watched, name: str, peer: Any, tag: Any, plain: Callable, *arguments: Any, **more: Any
) -> tuple[Any, int, int]:
    """Make a call as the current one; return its result, and when it began and ended in ns."""
    recorder = comm.recorder
    begin = perf_counter_ns()
    recorder.current = (name, peer, tag, begin, comm._members)
    try:
        return plain(*arguments, **more), begin, perf_counter_ns()
    finally:
        recorder.current = None


def got(comm: Watched, status: MPI.Status) -> tuple[Any, int, int]:
    """Return a received message's source (world rank or ``"PROC_NULL"``), tag and bytes."""
    source = status.Get_source()
    return comm._world.get(source, source), status.Get_tag(), max(status.Get_count(_BYTE), 0)


class AnyRequest(type):
    """Plain requests (of files, of windows) count as instances of the class in their place."""

    def __instancecheck__(cls, instance: object) -> bool:
        return type.__instancecheck__(cls, instance) or isinstance(instance, cls.__mro__[1])


class TracedRequest(_Request, metaclass=AnyRequest):
    """An ``MPI.Request`` whose waits and tests are reported and recorded.

    Knows its communicator, the call that made it, and its recorded call if there is one.
    """

    __slots__ = ("_call", "_comm", "_kept", "_peer", "_tag")

    def __new__(cls, request: MPI.Request | None = None) -> Any:
        self: Any = _Request.__new__(cls, request)  # type: ignore[arg-type]
        self._comm = self._call = self._peer = self._tag = self._kept = None
        return self


def traced_request(
    request: MPI.Request,
    comm: Watched,
    call: str,
    peer: Any,
    tag: Any,
    kept: list | None = None,
) -> MPI.Request:
    """Return a copy of a request that knows which call made it.

    ``peer`` and ``tag`` are what a wait for it waits for, and ``kept`` the recorded call, which the
    wait completes.
    """
    made: Any = _Request.__new__(TracedRequest, request)
    made._comm, made._call, made._peer, made._tag, made._kept = comm, call, peer, tag, kept
    return made


def _known(requests: Iterable) -> list:
    return [r for r in requests if getattr(r, "_comm", None) is not None and r]


def _peers(requests: Iterable) -> Any:
    """The peers waited for: one, or a tuple of several different ones."""
    each = (r._peer if isinstance(r._peer, tuple) else (r._peer,) for r in requests)
    peers = dict.fromkeys(peer for some in each for peer in some)
    return next(iter(peers)) if len(peers) == 1 else tuple(peers)


def _settle(finished: Iterable, end: int) -> tuple[Call, ...]:
    """Complete the calls of the (request, status) pairs that are done; return those calls."""
    settled = []
    for request, status in finished:
        kept = getattr(request, "_kept", None)
        if kept is None:
            continue
        request._kept = None
        kept[DONE] = end
        if kept[KIND] == RECEIVE:
            kept[PEER], kept[TAG], kept[BYTES] = got(request._comm, status)
        elif kept[KIND] == EXCHANGE:
            kept[MORE] = got(request._comm, status)
        settled.append(kept)
    return tuple(settled)


def _waited(name: str, request: Any, peer: Any, done: tuple, begin: int, end: int) -> tuple:
    """The recorded call of a wait: with one call completed it says what that call got."""
    tag, size = request._tag, sum(kept[BYTES] for kept in done)
    if len(done) == 1:
        peer, tag = done[0][PEER], done[0][TAG]
    return name, WAIT, request._comm.identity, peer, tag, size, begin, end, None, done or None


def _one(name: str) -> Callable:
    """Make Wait, wait, Test or test."""
    plain = getattr(_Request, name)

    def call(self: Any, status: MPI.Status | None = None) -> Any:
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
            recorder.add(_waited(name, self, self._peer, done, begin, end))
        else:
            recorder.poll(list(_waited(name, self, self._peer, (), begin, end)))
        return result

    return functools.wraps(plain)(call)


# Which requests a call on a list of them completed, as (request, status) pairs; results are plain,
# or in a tuple with the received objects, or with a flag.


def _done_all(requests: Sequence, result: Any, statuses: Any) -> Iterable:
    flag = result[0] if isinstance(result, tuple) else result
    return zip(requests, statuses, strict=False) if flag is not False else ()


def _done_any(requests: Sequence, result: Any, status: Any) -> Iterable:
    index = result[0] if isinstance(result, tuple) else result
    return [(requests[index], status)] if index != MPI.UNDEFINED else ()


def _done_some(requests: Sequence, result: Any, statuses: Any) -> Iterable:
    indices = result[0] if isinstance(result, tuple) else result
    return [(requests[i], status) for i, status in zip(indices or (), statuses, strict=False)]


def _several(verb: str, which: str) -> classmethod:
    """Make Waitall, testany and the rest of the calls on a list of requests."""
    name = verb + which
    plain = getattr(_Request, name)
    find = {"all": _done_all, "any": _done_any, "some": _done_some}[which]

    def call(cls: type, requests: Sequence, statuses: Any = None) -> Any:
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
            kept = _waited(name, first, peers, done, begin, end)
            if finished or verb in ("Wait", "wait"):
                recorder.add(kept)
            else:
                recorder.poll(list(kept))
        return result

    if which == "any":  # the parameter's name is part of the interface
        return classmethod(
            functools.wraps(plain)(lambda cls, requests, status=None: call(cls, requests, status))
        )
    return classmethod(functools.wraps(plain)(call))


for _verb in ("Wait", "wait", "Test", "test"):
    setattr(TracedRequest, _verb, _one(_verb))
    for _which in ("all", "any", "some"):
        setattr(TracedRequest, _verb + _which, _several(_verb, _which))


class TracedMessage(_Message, metaclass=AnyRequest):
    """An ``MPI.Message`` that a matched probe found on ``comm``; its receives are recorded."""

    __slots__ = ("_comm",)

    def __new__(cls, message: MPI.Message | None = None, comm: Watched | None = None) -> Any:
        self: Any = _Message.__new__(cls, message)
        self._comm = comm
        return self


def traced_message(message: MPI.Message | None, comm: Watched) -> TracedMessage | None:
    """Return a traced copy of a matched message; None if the probe found nothing."""
    return None if message is None else TracedMessage(message, comm)


def _receiver(name: str) -> Callable:
    """Make Recv, recv, Irecv or irecv of a matched message."""
    plain = getattr(_Message, name)
    at = {"Recv": 1, "recv": 0}.get(name)  # where the status stands

    def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
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
        kept = None
        if comm.recorder.events is not None:
            kept = [name, RECEIVE, comm.identity, peer, tag, size, begin, end, None, None]
            comm.recorder.add(kept)
        if status is None:
            return traced_request(result, comm, name, "matched", None, kept)
        return result

    return functools.wraps(plain)(call)


for _name in ("Recv", "recv", "Irecv", "irecv"):
    setattr(TracedMessage, _name, _receiver(_name))
