"""The MPI calls of all ranks in one: a common clock, matched messages, counts."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """One MPI call of one rank; times in seconds since the first call of any rank.

    ``kind`` is ``"send"``, ``"receive"``, ``"exchange"``, ``"collective"``, ``"wait"`` or
    ``"probe"``. ``peer`` is a rank of ``COMM_WORLD`` or a name (``"all"``, ``"ANY_SOURCE"``,
    ``"PROC_NULL"``), or several of these for a wait for several. ``bytes`` are sent by a send or an
    exchange, got by a receive, completed by a wait, put in by this rank in a collective.
    """

    rank: int  #: of ``COMM_WORLD``
    call: str  #: MPI's name: ``"Send"``, ``"allreduce"``, ``"Waitall"``
    kind: str
    comm: int  #: an index of :attr:`Trace.communicators`
    peer: int | str | tuple | None
    tag: int | str | None
    bytes: int
    begin: float  #: when the call was made
    end: float  #: when it returned
    done: float | None = None  #: when a non-blocking call was found complete
    completes: tuple[int, ...] = ()  #: by a wait, as indices of :attr:`Trace.events`
    received: tuple | None = None  #: what an exchange got: ``(peer, tag, bytes)``
    waiting: float = 0.0  #: from ``begin``, until the other side was there and something could move

    @property
    def duration(self) -> float:
        """Seconds between call and return."""
        return self.end - self.begin


@dataclass(frozen=True)
class Message:
    """A send and the receive that got it."""

    source: int  #: a rank of ``COMM_WORLD``, as the next
    dest: int
    tag: int
    bytes: int
    comm: int  #: an index of :attr:`Trace.communicators`
    send: int  #: an index of :attr:`Trace.events`, as the next two
    receive: int
    completed_in: int  #: the receive itself, or the wait that completed it
    begin: float  #: when the send was called, in s
    end: float  #: when the receiver had the message, at the return of ``completed_in``, in s


@dataclass(frozen=True)
class Trace:
    """What all ranks did: see :func:`helpers.tracing.record`."""

    ranks: tuple[int, ...]
    events: tuple[Event, ...]  #: in order of ``begin``
    messages: tuple[Message, ...]  #: in order of ``begin``
    unmatched_sends: tuple[int, ...] = ()  #: of ``events``, whose message has no other side here
    unmatched_receives: tuple[int, ...] = ()
    clock_uncertainty: tuple[float, ...] = ()  #: s, of each of ``ranks`` against the first
    communicators: tuple[tuple, ...] = ()  #: the members of each, as ranks of ``COMM_WORLD``
    dropped: tuple[int, ...] = ()  #: how many calls of each of ``ranks`` were too many to record

    def __repr__(self) -> str:
        parts = [f"{len(self.ranks)} ranks", f"{len(self.events)} calls"]
        parts += [f"{len(self.messages)} messages", f"{self.duration * 1e3:.3g} ms"]
        for name, items in (("sends", self.unmatched_sends), ("receives", self.unmatched_receives)):
            if items:
                parts.append(f"{len(items)} unmatched {name}")
        if any(self.dropped):
            parts.append(f"{sum(self.dropped)} calls not recorded: the list was full")
        return f"<Trace: {', '.join(parts)}>"

    @property
    def duration(self) -> float:
        """Seconds from the first call to the last return."""
        return max((event.end for event in self.events), default=0.0)

    def of(self, rank: int) -> list[Event]:
        """Return the events of one rank of ``ranks``, in order; [] if it made no MPI call."""
        if rank not in self.ranks:
            raise ValueError(f"Trace.of expects one of the ranks {list(self.ranks)}; got {rank!r}")
        return [event for event in self.events if event.rank == rank]

    def bytes_sent(self) -> dict[int, int]:
        """Return the bytes that each rank sent in point-to-point messages."""
        return self._sum(lambda event: event.bytes, ("send", "exchange"))

    def waiting(self) -> dict[int, float]:
        """Return the seconds that each rank spent in calls whose other side was not there yet."""
        return self._sum(lambda event: event.waiting, None)

    def _sum(self, value: Callable[[Event], float], kinds: Collection[str] | None) -> dict:
        totals: dict[int, float] = dict.fromkeys(self.ranks, 0)
        for event in self.events:
            if kinds is None or (event.kind in kinds and event.peer != "PROC_NULL"):
                totals[event.rank] += value(event)
        return totals

    def steps(self) -> int:
        """Return the rounds that these messages need if all take equally long.

        In a round a rank can send one message and receive one (a full-duplex port), and a message
        can go out only after those that its sender had received before. A chain over N ranks takes
        N−1 rounds, a ring allreduce 2(N−1).
        """
        return max(rounds(self), default=0)


def rounds(trace: Trace) -> list[int]:
    """Return the round, from 1, in which each of ``trace.messages`` arrives.

    In a round a rank can send one message and receive one (a full-duplex port). A message goes out
    after those that its sender sent or received before, and waits where its receiver is busy with
    another. Ranks never wait for a send, only for what they receive. Messages of ranks that wait
    for one another in a circle, which no run records, never arrive: their round is 0.
    """
    by_send = {message.send: k for k, message in enumerate(trace.messages)}
    done_in = defaultdict(list)  # event -> the messages that the rank had once it returned
    for k, message in enumerate(trace.messages):
        done_in[message.completed_in].append(k)
    actions: dict[int, deque] = {rank: deque() for rank in trace.ranks}
    for i, event in sorted(enumerate(trace.events), key=lambda pair: (pair[1].begin, pair[0])):
        if i in by_send:
            actions[event.rank].append(("send", by_send[i]))
        actions[event.rank].extend(("receive", k) for k in done_in[i])
    sent = dict.fromkeys(trace.ranks, 0)  # the last round in which a rank sent, received
    received = dict.fromkeys(trace.ranks, 0)
    gone: dict[int, int] = {}  # message -> the round in which it went out
    arrived = [0] * len(trace.messages)
    progress = True
    while progress:
        progress = False
        for rank, queue in actions.items():
            while queue:
                what, k = queue[0]
                if what == "send":
                    sent[rank] = gone[k] = 1 + max(sent[rank], received[rank])
                elif k in gone:
                    received[rank] = arrived[k] = max(gone[k], received[rank] + 1)
                else:
                    break  # its sender has not come so far yet
                queue.popleft()
                progress = True
    return arrived
