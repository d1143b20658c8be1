"""Messages found by a matched probe, which tell that they are received."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeAlias

from mpi4py import MPI

from helpers.tracing.activity import RECEIVE, Watched
from helpers.tracing.requests import AnyRequest, got, timed, traced_request

_Message: TypeAlias = MPI.Message  # install() puts ours in its place
_Status = MPI.Status


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
            return traced_request(result, comm, name, "matched", None, None, kept)
        return result

    return functools.wraps(plain)(call)


for _name in ("Recv", "recv", "Irecv", "irecv"):
    setattr(TracedMessage, _name, _receiver(_name))
