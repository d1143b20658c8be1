"""From the ranks' records to events on one clock, and sends matched to receives."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import replace

from helpers.tracing.activity import (
    BEGIN,
    BYTES,
    CALL,
    COLLECTIVE,
    COMM,
    DONE,
    END,
    EXCHANGE,
    KIND,
    MORE,
    PEER,
    RECEIVE,
    SEND,
    TAG,
    WAIT,
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


def assemble(records: dict[int, list], clocks: dict[int, Clock]) -> tuple:
    """Return (events, messages, unmatched sends, unmatched receives, communicators).

    A message is matched as MPI matches it: between two ranks, on one communicator and with one tag,
    the k-th send meets the k-th receive that was posted.
    """
    start = min(
        (clocks[rank].to_root(record[BEGIN]) for rank, log in records.items() for record in log),
        default=0,
    )
    entries = [
        (clocks[rank].to_root(record[BEGIN]), rank, number, record)
        for rank, log in records.items()
        for number, record in enumerate(log)
    ]
    entries.sort(key=lambda entry: entry[:3])
    index = {id(record): i for i, (*_, record) in enumerate(entries)}
    communicators: dict = {}
    events = []
    for _, rank, _, record in entries:
        clock = clocks[rank]

        def seconds(ns, clock=clock):
            return None if ns is None else (clock.to_root(ns) - start) * 1e-9

        waits = record[KIND] == WAIT
        done = (index.get(id(r)) for r in record[MORE] or ()) if waits else ()
        events.append(
            Event(
                rank=rank,
                call=record[CALL],
                kind=record[KIND],
                comm=communicators.setdefault(record[COMM], len(communicators)),
                peer=record[PEER],
                tag=record[TAG],
                bytes=record[BYTES],
                begin=seconds(record[BEGIN]),
                end=seconds(record[END]),
                done=seconds(record[DONE]),
                completes=tuple(i for i in done if i is not None),
                received=record[MORE] if record[KIND] == EXCHANGE else None,
            )
        )
    messages, lone_sends, lone_receives = _match(events, records, index)
    events = _with_waiting(events, messages)
    return events, messages, lone_sends, lone_receives, [_members(c) for c in communicators]


def _members(identity) -> tuple:
    """The world ranks in a communicator's identity (parent, call, members, number)."""
    return tuple(identity[2] or ()) if isinstance(identity, tuple) and len(identity) > 2 else ()


def _match(events: list[Event], records: dict[int, list], index: dict) -> tuple:
    sends, receives = defaultdict(deque), defaultdict(deque)
    lone_sends, lone_receives = [], []
    completed_in = {i: number for number, e in enumerate(events) for i in e.completes}
    for rank, log in records.items():
        for record in log:  # in the order in which the calls were made
            i = index[id(record)]
            event = events[i]
            if event.kind in (SEND, EXCHANGE) and event.peer != "PROC_NULL":
                sends[event.comm, rank, event.peer, event.tag].append(i)
            got = None
            if event.kind == RECEIVE:
                got = (event.peer, event.tag, event.bytes)
            elif event.kind == EXCHANGE:
                got = event.received or ("unknown", None, 0)
            if got is None or got[0] == "PROC_NULL":
                continue
            pending = isinstance(record, list) and event.done is None
            if pending:
                lone_receives.append(i)
            else:
                receives[event.comm, got[0], rank, got[1]].append((i, got[2]))
    messages = []
    for key, queue in sends.items():
        comm, source, dest, tag = key
        for i in queue:
            if not receives[key]:
                lone_sends.append(i)
                continue
            j, size = receives[key].popleft()
            last = completed_in.get(j, j)
            end = events[j].done if events[j].done is not None else events[last].end
            messages.append(
                Message(source, dest, tag, size, comm, i, j, last, events[i].begin, end)
            )
    lone_receives += [i for queue in receives.values() for i, _ in queue]
    messages.sort(key=lambda message: (message.begin, message.send))
    return messages, sorted(lone_sends), sorted(lone_receives)


def _with_waiting(events: list[Event], messages: list[Message]) -> list[Event]:
    """Add to each event how long the other side was not there yet."""
    ready: dict[int, float] = {}  # event -> when the last of those it needs had come

    def needs(i: int, moment: float) -> None:
        ready[i] = max(ready.get(i, 0.0), moment)

    for message in messages:
        needs(message.completed_in, events[message.send].begin)
        # A send that ended only after its receive was posted may have waited for that (rendezvous);
        # one that ended before was copied away (eager).
        posted = events[message.receive].begin
        if events[message.send].kind == SEND and events[message.send].end > posted:
            needs(message.send, posted)
    rounds = defaultdict(list)
    counts: dict = defaultdict(int)
    for i, event in enumerate(events):
        if event.kind == COLLECTIVE:
            key = (event.comm, event.rank)
            rounds[event.comm, counts[key]].append(i)
            counts[key] += 1
    for members in rounds.values():
        last = max(events[i].begin for i in members)
        for i in members:
            name, root = events[i].call.lower(), events[i].peer
            if name in _ALL_WAIT_FOR_ALL or (
                name in _ROOT_WAITS_FOR_ALL and root == events[i].rank
            ):
                needs(i, last)
            elif name in _ALL_WAIT_FOR_ROOT:
                needs(
                    i, max((events[j].begin for j in members if events[j].rank == root), default=0)
                )
    return [
        replace(event, waiting=min(max(ready[i] - event.begin, 0.0), event.duration))
        if i in ready and ready[i] > event.begin
        else event
        for i, event in enumerate(events)
    ]
