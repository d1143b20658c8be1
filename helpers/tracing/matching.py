"""From the ranks' calls to events on one clock, and sends matched to receives.

An *event* is named by its index in the list of all ranks' events in order of begin; so are a send
and a receive, which are events.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from helpers.tracing.activity import (
    BEGIN,
    BYTES,
    COLLECTIVE,
    COMM,
    DONE,
    END,
    EXCHANGE,
    KIND,
    MORE,
    NAME,
    PEER,
    RECEIVE,
    SEND,
    TAG,
    WAIT,
    Call,
)
from helpers.tracing.clock import Clock
from helpers.tracing.trace import Event, Message

# Which collectives cannot end before whom: everyone, or only the root, must have entered.
_ALL_WAIT_FOR_ALL = {
    "barrier", "allreduce", "allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw",
    "reduce_scatter", "reduce_scatter_block", "split", "dup", "clone", "create", "agree",
}  # fmt: skip
_ALL_WAIT_FOR_ROOT = {"bcast", "scatter", "scatterv"}
_ROOT_WAITS_FOR_ALL = {"reduce", "gather", "gatherv"}

EAGER = 1024  # bytes: a library copies what is so small away, whether or not it is received

Calls = dict[int, list[Call]]  # world rank -> its calls, in the order in which they were made
Indices = dict[int, int]  # id of a call -> its event
Waits = dict[int, int]  # event -> the wait that completed it


def assemble(calls: Calls, clocks: dict[int, Clock]) -> tuple:
    """Put the calls of all ranks, by world rank, on rank 0's clock and find the messages.

    A message is matched as MPI matches it: between two ranks, on one communicator and with one tag,
    the k-th send meets the k-th receive that was posted. Returns events, messages, unmatched sends,
    unmatched receives and communicators, as :class:`helpers.tracing.Trace` holds them.
    """
    events, communicators, index = _events(calls, clocks)
    sides = _sides(events, calls, index)
    waits = {i: wait for wait, event in enumerate(events) for i in event.completes}
    messages = _match(events, sides, waits)
    return (
        tuple(_with_waiting(events, messages, waits)),
        tuple(messages),
        tuple(sorted(sides.lone_sends)),
        tuple(sorted(sides.lone_receives)),
        tuple(map(_members, communicators)),
    )


def _events(calls: Calls, clocks: dict[int, Clock]) -> tuple[list[Event], dict, Indices]:
    """Return the events, the communicators (identity -> number), and which event a call became."""
    ordered = sorted(
        (clocks[rank].to_root(call[BEGIN]), rank, number)
        for rank, log in calls.items()
        for number, call in enumerate(log)
    )
    start = ordered[0][0] if ordered else 0
    index = {id(calls[rank][number]): i for i, (_, rank, number) in enumerate(ordered)}
    communicators: dict = {}
    events = []
    for _, rank, number in ordered:
        call = calls[rank][number]
        comm = communicators.setdefault(call[COMM], len(communicators))
        events.append(_event(rank, call, comm, clocks[rank], start, index))
    return events, communicators, index


def _event(rank: int, call: Call, comm: int, clock: Clock, start: int, index: Indices) -> Event:
    def seconds(ns: int) -> float:
        return (clock.to_root(ns) - start) * 1e-9

    completed = call[MORE] or () if call[KIND] == WAIT else ()
    return Event(
        rank=rank,
        call=call[NAME],
        kind=call[KIND],
        comm=comm,
        peer=call[PEER],
        tag=call[TAG],
        bytes=call[BYTES],
        begin=seconds(call[BEGIN]),
        end=seconds(call[END]),
        done=None if call[DONE] is None else seconds(call[DONE]),
        # one that was completed here may have been made before the recording began
        completes=tuple(index[id(other)] for other in completed if id(other) in index),
        received=call[MORE] if call[KIND] == EXCHANGE else None,
    )


def _members(identity: object) -> tuple:
    """The world ranks in a communicator's identity (parent, call, members, number)."""
    return tuple(identity[2] or ()) if isinstance(identity, tuple) and len(identity) > 2 else ()


@dataclass
class _Sides:
    """The two sides of all messages: (comm, source, dest, tag) -> events, first come first."""

    sends: dict[tuple, deque[int]] = field(default_factory=lambda: defaultdict(deque))
    receives: dict[tuple, deque[tuple[int, int]]] = field(  # of (event, bytes)
        default_factory=lambda: defaultdict(deque)
    )
    lone_sends: list[int] = field(default_factory=list)
    lone_receives: list[int] = field(default_factory=list)


def _sides(events: list[Event], calls: Calls, index: Indices) -> _Sides:
    """Line up sends and receives in the order in which the calls were made."""
    sides = _Sides()
    for rank, log in calls.items():
        for call in log:
            i = index[id(call)]
            event = events[i]
            if event.kind in (SEND, EXCHANGE) and event.peer != "PROC_NULL":
                sides.sends[event.comm, rank, event.peer, event.tag].append(i)
            if event.kind not in (RECEIVE, EXCHANGE):
                continue
            source, tag, size = event.peer, event.tag, event.bytes
            if event.kind == EXCHANGE:
                source, tag, size = event.received or ("unknown", None, 0)
            if source == "PROC_NULL":
                continue
            if isinstance(call, list) and event.done is None:  # not blocking, and never completed
                sides.lone_receives.append(i)
            else:
                sides.receives[event.comm, source, rank, tag].append((i, size))
    return sides


def _match(events: list[Event], sides: _Sides, waits: Waits) -> list[Message]:
    """Pair the sides off in their order; what is left over goes to the lone ones."""
    messages = []
    for key, queue in sides.sends.items():
        comm, source, dest, tag = key
        receives = sides.receives[key]
        for i in queue:
            if not receives:
                sides.lone_sends.append(i)
                continue
            j, size = receives.popleft()
            last = waits.get(j, j)
            done = events[j].done
            end = events[last].end if done is None else done
            messages.append(
                Message(source, dest, tag, size, comm, i, j, last, events[i].begin, end)
            )
    sides.lone_receives += [i for queue in sides.receives.values() for i, _ in queue]
    messages.sort(key=lambda message: (message.begin, message.send))
    return messages


def _with_waiting(events: list[Event], messages: list[Message], waits: Waits) -> list[Event]:
    """Add to each event how long the other side was not there yet."""
    ready: dict[int, float] = {}  # event -> when the last of those it needs had come
    needs = *_needs_of_messages(events, messages, waits), *_needs_of_collectives(events, waits)
    for i, moment in needs:
        ready[i] = max(ready.get(i, 0.0), moment)
    return [
        replace(event, waiting=min(ready[i] - event.begin, event.duration))
        if ready.get(i, 0.0) > event.begin
        else event
        for i, event in enumerate(events)
    ]


def _needs_of_messages(
    events: list[Event], messages: list[Message], waits: Waits
) -> Iterable[tuple[int, float]]:
    """Yield (event, the moment before which nothing could move) for both sides of messages."""
    for message in messages:
        send = events[message.send]
        yield message.completed_in, send.begin
        # A send that ended only after its receive was posted waited for that (rendezvous), unless
        # it is small; one that ended before was copied away (eager).
        call = send.call.lower()
        where = waits.get(message.send) if call.startswith("i") else message.send
        eager = send.bytes <= EAGER and "ssend" not in call
        posted = events[message.receive].begin
        if send.kind == SEND and not eager and where is not None and events[where].end > posted:
            yield where, posted


def _needs_of_collectives(events: list[Event], waits: Waits) -> Iterable[tuple[int, float]]:
    """Yield the same for collectives: a communicator's k-th on one rank is the k-th on all."""
    rounds: dict[tuple[int, int], list[int]] = defaultdict(list)  # (comm, k) -> events
    counts: dict[tuple[int, int], int] = defaultdict(int)  # (comm, rank) -> k
    for i, event in enumerate(events):
        if event.kind == COLLECTIVE:
            rounds[event.comm, counts[event.comm, event.rank]].append(i)
            counts[event.comm, event.rank] += 1
    for together in rounds.values():
        last = max(events[i].begin for i in together)
        for i in together:
            name, rank, root = events[i].call.lower(), events[i].rank, events[i].peer
            where = i
            if name.startswith("i") and i in waits:  # a non-blocking one: its wait waits
                name, where = name[1:], waits[i]
            if name in _ALL_WAIT_FOR_ALL or (name in _ROOT_WAITS_FOR_ALL and root == rank):
                yield where, last
            elif name in _ALL_WAIT_FOR_ROOT:
                begun = (events[j].begin for j in together if events[j].rank == root)
                yield where, max(begun, default=0)
