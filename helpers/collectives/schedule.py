"""Who sends which part to whom at which step, and what every rank holds after it.

    >>> schedule = model("ring", ranks=4)
    >>> schedule.steps, schedule.sent(4000)
    (6, [6000, 6000, 6000, 6000])

A :class:`Schedule` comes from the algorithm's own code run without messages (:func:`model`, for any
number of ranks) or from the trace of a run that just happened (:func:`from_trace`). Both list the
calls of every rank; :func:`place` finds the steps. A step is the time of one message between
neighbours: in each step a rank sends at most one message and receives at most one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from helpers.collectives import chain, doubling, ring, rooted, tree
from helpers.collectives.dry_run import Call, Notes
from helpers.collectives.parts import TAG, lengths, split


class Transfer(NamedTuple):
    """One message: at ``step`` (from 1), ``source`` sends part ``chunk`` to ``dest``."""

    step: int
    source: int
    dest: int
    chunk: int


@dataclass(frozen=True)
class Schedule:
    """The messages of one collective, by step, and what each rank had before the first.

    ``held[rank][chunk]`` is the set of ranks whose contribution is in that rank's copy of the
    chunk; an empty set: it has nothing there (or nothing that counts).
    """

    name: str
    ranks: int
    pieces: int  # into how many messages the array (by the ring: each rank's part) was cut
    chunks: int
    transfers: tuple[Transfer, ...]
    held: tuple[tuple[frozenset[int], ...], ...]
    origin: str  # "model" or "trace"

    @property
    def steps(self) -> int:
        """How many steps it takes."""
        return max((t.step for t in self.transfers), default=0)

    def at(self, step: int) -> list[Transfer]:
        """Return the transfers of one step."""
        return [t for t in self.transfers if t.step == step]

    def states(self) -> list[list[list[frozenset[int]]]]:
        """Return what each rank holds of each chunk: ``states()[step][rank][chunk]``.

        What arrives is added if it shares no contribution with what is there, and takes its place
        if it contains it. Anything else would count a contribution twice: ValueError.
        """
        states = [[list(row) for row in self.held]]
        for step in range(1, self.steps + 1):
            before = states[-1]
            after = [list(row) for row in before]
            for t in self.at(step):
                arriving, there = before[t.source][t.chunk], after[t.dest][t.chunk]
                if there & arriving and not there <= arriving:
                    raise ValueError(
                        f"{self.name}, step {step}: rank {t.source} sends {sorted(arriving)} of "
                        f"chunk {t.chunk} to rank {t.dest}, which already holds {sorted(there)}"
                    )
                after[t.dest][t.chunk] = there | arriving
            states.append(after)
        return states

    def sent(self, size: int, step: int | None = None) -> list[int]:
        """Return how much each rank sent, up to and including ``step``, of an array of ``size``.

        ``size`` counts elements or bytes; a part holds 1/``chunks`` of it, to the nearest one.
        """
        sizes = lengths(split(size, self.chunks))
        sent = [0] * self.ranks
        for t in self.transfers:
            if step is None or t.step <= step:
                sent[t.source] += sizes[t.chunk]
        return sent


@dataclass(frozen=True)
class Collective:
    """How to run one collective on ``chunks`` elements, and who contributes to what before it."""

    run: Callable  # (comm, chunks, pieces) -> None, on one rank
    chunks: Callable  # (ranks, pieces) -> how many chunks the array has
    held: Callable  # (rank, chunk, owner of the chunk) -> set of contributions


def _combine(mine, theirs, theirs_first=True) -> None:
    mine += theirs


def _run(function, *arguments) -> Callable:
    """Run an algorithm that takes (work, comm, ..., pieces), one element for each chunk."""
    return lambda comm, chunks, pieces: function(np.ones(chunks), comm, *arguments, pieces)


def _run_parts(function, *arguments) -> Callable:
    """Run one that takes (work, comm, ..., parts)."""
    return lambda comm, chunks, pieces: function(
        np.ones(chunks), comm, *arguments, split(chunks, chunks)
    )


def _scatter(comm, chunks: int, pieces: int) -> None:
    rooted.scatter(np.ones(chunks), np.ones(1), comm, 0, split(chunks, chunks))


def _gather(comm, chunks: int, pieces: int) -> None:
    rooted.gather(np.ones(1), np.ones(chunks), comm, 0, split(chunks, chunks))


def _pieces(ranks: int, pieces: int) -> int:
    return pieces


def _parts(ranks: int, pieces: int) -> int:
    return ranks * pieces


def _one_each(ranks: int, pieces: int) -> int:
    return ranks


def _everybody(rank: int, chunk: int, owner: int) -> set[int]:
    return {rank}


def _only_root(rank: int, chunk: int, owner: int) -> set[int]:
    return {0} if rank == 0 else set()


def _only_owner(rank: int, chunk: int, owner: int) -> set[int]:
    return {rank} if rank == owner else set()


COLLECTIVES = {
    "broadcast": Collective(_run(tree.broadcast, 0), _pieces, _only_root),
    "broadcast_chain": Collective(_run(chain.broadcast, 0), _pieces, _only_root),
    "scatter": Collective(_scatter, _one_each, _only_root),
    "gather": Collective(_gather, _one_each, _only_owner),
    "allgather": Collective(_run_parts(ring.allgather), _parts, _only_owner),
    "reduce": Collective(_run(tree.reduce, _combine, 0), _pieces, _everybody),
    "reduce_chain": Collective(_run(chain.reduce, _combine, 0), _pieces, _everybody),
    "reduce_scatter": Collective(_run_parts(ring.reduce_scatter, _combine), _parts, _everybody),
    "chain": Collective(_run(chain.allreduce, _combine), _pieces, _everybody),
    "tree": Collective(_run(tree.allreduce, _combine), _pieces, _everybody),
    "recursive_doubling": Collective(_run(doubling.allreduce, _combine), _pieces, _everybody),
    "ring": Collective(_run(ring.allreduce, _combine), _parts, _everybody),
}


def find(name: str) -> Collective:
    """Return the collective called ``name``; ValueError lists the names."""
    try:
        return COLLECTIVES[name]
    except KeyError:
        names = ", ".join(repr(known) for known in COLLECTIVES)
        raise ValueError(f"schedules exist for {names}; got {name!r}") from None


def perform(name: str, comm, pieces: int = 1) -> None:
    """Run the collective on ``comm``, with one number for each chunk: to be traced.

    With rank 0 as root. ``pieces``: into how many messages the array (for the ring's calls, each
    rank's part) is cut; scatter and gather always have one part a rank.
    """
    collective = find(name)
    collective.run(comm, collective.chunks(comm.Get_size(), pieces), pieces)


def model(name: str, ranks: int, pieces: int = 1) -> Schedule:
    """Return the schedule of a collective for any number of ranks, found without running them."""
    if ranks < 1 or pieces < 1:
        raise ValueError(
            f"a schedule needs ranks >= 1 and pieces >= 1; got ranks={ranks}, pieces={pieces}"
        )
    notes = [Notes(rank, ranks) for rank in range(ranks)]
    for note in notes:
        perform(name, note, pieces)
    return from_calls(name, [note.calls for note in notes], pieces, "model")


def from_calls(name: str, calls: Sequence[Sequence[Call]], pieces: int, origin: str) -> Schedule:
    """Return the schedule of a collective from the calls of every rank, in their order."""
    collective, ranks = find(name), len(calls)
    chunks = collective.chunks(ranks, pieces)
    held = tuple(
        tuple(
            frozenset(collective.held(rank, chunk, chunk * ranks // chunks))
            for chunk in range(chunks)
        )
        for rank in range(ranks)
    )
    return Schedule(name, ranks, pieces, chunks, tuple(place(calls)), held, origin)


def from_trace(name: str, trace, pieces: int = 1) -> Schedule:
    """Return the schedule of the collective that a :class:`helpers.tracing.Trace` recorded.

    All calls that are not messages of :mod:`helpers.collectives` (their tag tells) are left out;
    the trace must hold one collective, on one communicator. Raises ValueError if it does not.
    """
    ours = [event for event in trace.events if isinstance(event.tag, int) and event.tag >= TAG]
    used = {event.comm for event in ours}
    if len(used) > 1:
        raise ValueError(f"the trace must hold one collective; it has messages on {len(used)}")
    members = trace.communicators[used.pop()] if used else trace.ranks
    index = {rank: i for i, rank in enumerate(members)}
    calls: list[list[Call]] = [[] for _ in members]
    for event in ours:
        mine = calls[index[event.rank]]
        if event.kind == "send":
            mine.append(Call(event.call == "Send", index[event.peer], event.tag, event.bytes))
        elif event.kind == "receive":
            mine.append(Call(True, source=index[event.peer], received_tag=event.tag))
        elif event.kind == "exchange":
            peer, tag, _ = event.received
            mine.append(Call(True, index[event.peer], event.tag, event.bytes, index[peer], tag))
    return from_calls(name, calls, pieces, "trace")


def place(calls: Sequence[Sequence[Call]]) -> list[Transfer]:
    """Find the step of every message from the calls that each rank makes, in their order.

    A message goes in the first step in which its sender has come to the call that sends it, its
    receiver to the one that takes it, and neither sends (receives) another one. A call that waits
    holds its rank until its messages are through. Raises ValueError for calls that never end.
    """
    ranks = [_Progress(list(rank)) for rank in calls]
    transfers = []
    moved = True
    while moved:
        moved = False
        for rank in ranks:
            rank.post()
        for source, sender in enumerate(ranks):
            while sender.outbox:
                dest, tag, ready = sender.outbox[0]
                receiver = ranks[dest]
                if not receiver.takes(source, tag):
                    break
                step = 1 + max(ready, receiver.clock, sender.sent_at, receiver.received_at)
                transfers.append(Transfer(step, source, dest, tag - TAG))
                sender.outbox.popleft()
                sender.sent_at = receiver.received_at = step
                receiver.received = True
                receiver.post()
                sender.post()
                moved = True
    stuck = [i for i, rank in enumerate(ranks) if rank.calls]
    if stuck:
        raise ValueError(
            f"the calls of ranks {stuck} never end: {[ranks[i].calls[0] for i in stuck]}"
        )
    return sorted(transfers)


class _Progress:
    """How far one rank has come: its clock and what it waits for."""

    def __init__(self, calls: list[Call]):
        self.calls = deque(calls)  # the first one is under way
        self.outbox: deque = deque()  # (dest, tag, ready at) of messages not yet through, in order
        self.clock = self.sent_at = self.received_at = 0
        self.posted = self.received = False

    def takes(self, source: int, tag: int) -> bool:
        """Whether the call under way receives this message."""
        call = self.calls[0] if self.calls else None
        return (
            call is not None
            and not self.received
            and (call.source, call.received_tag) == (source, tag)
        )

    def post(self) -> None:
        """Begin the next calls, up to one that waits for a message not yet through."""
        while self.calls:
            call = self.calls[0]
            if not self.posted and call.dest is not None:
                self.outbox.append((call.dest, call.sent_tag, self.clock))
            self.posted = True
            if call.waits:
                if (call.dest is not None and self.outbox) or (
                    call.source is not None and not self.received
                ):
                    return
                sent = self.sent_at if call.dest is not None else 0
                got = self.received_at if call.source is not None else 0
                self.clock = max(self.clock, sent, got)
            self.calls.popleft()
            self.posted = self.received = False
