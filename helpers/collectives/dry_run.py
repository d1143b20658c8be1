"""Running an algorithm without messages, to see which ones it would send.

What an algorithm sends depends on the number of ranks and on nothing that it receives. So running
it once for every rank on a communicator that only writes down what it is asked gives the trace of
any number of ranks: that is the *model*.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any

from helpers.tracing.trace import Event, Message, Trace


def dry_run(function: Callable[[DryComm], object], ranks: int) -> Trace:
    """Return the trace that ``function(comm)`` would leave on so many ranks.

    Calls are in each rank's order, and times only number a rank's calls.

    >>> import numpy as np
    >>> trace = dry_run(lambda comm: comm.Send(np.ones(2), 1 - comm.Get_rank()), ranks=2)
    >>> trace.bytes_sent(), len(trace.messages), trace.unmatched_sends
    ({0: 16, 1: 16}, 0, (0, 1))
    """
    events: list[Event] = []
    for rank in range(ranks):
        function(DryComm(rank, ranks, events))
    sends: dict[tuple, deque[int]] = defaultdict(deque)
    for i, event in enumerate(events):
        if event.kind != "receive":
            sends[event.rank, event.peer, event.tag].append(i)
    messages: list[Message] = []
    lone = []
    for i, event in enumerate(events):
        if event.kind == "send":
            continue
        source, tag, _ = event.received or (event.peer, event.tag, 0)
        queue = sends[source, event.rank, tag]
        if not queue:
            lone.append(i)
            continue
        send = queue.popleft()  # the k-th send meets the k-th receive, as in MPI
        size, begin = events[send].bytes, events[send].begin
        messages.append(Message(source, event.rank, tag, size, 0, send, i, i, begin, event.end))
    return Trace(
        tuple(range(ranks)),
        tuple(events),
        tuple(messages),
        tuple(sorted(i for queue in sends.values() for i in queue)),
        tuple(lone),
        communicators=(tuple(range(ranks)),),
    )


class DryComm:
    """Rank ``rank`` of ``n``: as much of mpi4py's communicator as the algorithms here use."""

    def __init__(self, rank: int, n: int, events: list[Event]):
        self._rank, self._n, self._events = rank, n, events
        self._calls = 0

    def Get_rank(self) -> int:  # noqa: N802 - mpi4py's names
        """Return this rank's number."""
        return self._rank

    def Get_size(self) -> int:  # noqa: N802
        """Return the number of ranks."""
        return self._n

    def Send(self, buf: Any, dest: int, tag: int = 0) -> None:  # noqa: N802
        """Write down that an array is sent."""
        self._write("Send", "send", dest, tag, buf.nbytes)

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> Done:  # noqa: N802
        """Write down that an array is sent."""
        self._write("Isend", "send", dest, tag, buf.nbytes)
        return Done()

    def Recv(self, buf: Any, source: int, tag: int = 0) -> None:  # noqa: N802
        """Write down that an array is received."""
        self._write("Recv", "receive", source, tag, buf.nbytes)

    def Sendrecv(  # noqa: N802
        self, sendbuf: Any, dest: int, sendtag: int, recvbuf: Any, source: int, recvtag: int
    ) -> None:
        """Write down that one array is sent and another received."""
        received = (source, recvtag, recvbuf.nbytes)
        self._write("Sendrecv", "exchange", dest, sendtag, sendbuf.nbytes, received)

    def _write(
        self, call: str, kind: str, peer: int, tag: int, size: int, received: tuple | None = None
    ) -> None:
        begin, end = float(self._calls), float(self._calls + 1)
        self._events.append(
            Event(self._rank, call, kind, 0, peer, tag, size, begin, end, received=received)
        )
        self._calls += 1


class Done:
    """The request of a message that nobody sends: complete at once."""

    def Wait(self) -> None:  # noqa: N802
        """Return at once."""
