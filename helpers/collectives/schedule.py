"""Who sends which part to whom at which step, and what every rank holds after it.

    >>> schedule = model("ring", ranks=4)
    >>> schedule.steps, schedule.sent(4000)
    (6, [6000, 6000, 6000, 6000])

A :class:`Schedule` comes from the algorithm's own code run without messages (:func:`model`, for any
number of ranks) or from the trace of a run that just happened (:func:`from_trace`). A step is the
time of one message: in each step a rank sends at most one and receives at most one, see
:mod:`helpers.tracing.trace`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from helpers.collectives.dry_run import dry_run
from helpers.collectives.hosts import Hosts, one_host
from helpers.collectives.parts import FIRST_TAG, Communicator, lengths, split
from helpers.collectives.registry import COLLECTIVES, find
from helpers.tracing.trace import Message, Trace, rounds

__all__ = ["COLLECTIVES", "Schedule", "Transfer", "from_trace", "model", "perform"]

NUMBER = 8  # bytes: `perform` moves one float64 for each chunk


class Transfer(NamedTuple):
    """One chunk's way in a message, at a step from 1; chunks joined are as many transfers."""

    step: int
    source: int
    dest: int
    chunk: int


@dataclass(frozen=True)
class Schedule:
    """The messages of one collective, by step, and what each rank had before the first.

    ``pieces`` says into how many messages the array (by the ring: each rank's part) was cut.
    ``held[rank][chunk]`` are the ranks whose contribution is in that rank's copy of the chunk: an
    empty set has nothing there, or nothing that counts. ``origin`` is "model" or "trace".
    """

    name: str
    ranks: int
    pieces: int
    chunks: int
    transfers: tuple[Transfer, ...]
    held: tuple[tuple[frozenset[int], ...], ...]
    origin: str
    title: str = ""

    @property
    def steps(self) -> int:
        """How many steps it takes."""
        return max((t.step for t in self.transfers), default=0)

    def at(self, step: int) -> list[Transfer]:
        """Return the transfers of one step, from 1."""
        return [t for t in self.transfers if t.step == step]

    def states(self) -> list[list[list[frozenset[int]]]]:
        """Return what each rank holds of each chunk: ``states()[step][rank][chunk]``.

        What arrives is added if it shares no contribution with what is there, and takes its place
        if it contains it.
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

        Elements or bytes, as ``size`` is; a chunk holds 1/``chunks`` of it, to the nearest one.
        """
        sizes = lengths(split(size, self.chunks))
        sent = [0] * self.ranks
        for t in self.transfers:
            if step is None or t.step <= step:
                sent[t.source] += sizes[t.chunk]
        return sent


def perform(name: str, comm: Communicator, pieces: int = 1, hosts: Hosts | None = None) -> None:
    """Run the collective on ``comm``, with rank 0 as root and one number for each chunk.

    ``pieces``: into how many messages the array (for the ring's calls, each rank's part) is cut;
    scatter and gather always have one part a rank. Without ``hosts``, MPI is asked where they
    count.
    """
    find(name).perform(comm, pieces, hosts)


def model(name: str, ranks: int, pieces: int = 1, hosts: Hosts | None = None) -> Schedule:
    """Return the schedule of a collective for any number of ranks, found without running them.

    Parameters
    ----------
    name : str
        One of :data:`COLLECTIVES`.
    ranks, pieces : int
        1 or more, see :func:`perform`.

    Raises
    ------
    ValueError
        For a collective that does not exist, for numbers below 1, and for an algorithm whose calls
        never end.
    """
    if ranks < 1 or pieces < 1:
        raise ValueError(
            f"a schedule needs ranks >= 1 and pieces >= 1; got ranks={ranks}, pieces={pieces}"
        )
    collective, where = find(name), one_host(ranks) if hosts is None else hosts
    if len(where) != ranks:
        raise ValueError(f"a schedule expects a host for each of {ranks} ranks; got hosts={where}")
    trace = dry_run(lambda comm: collective.perform(comm, pieces, where), ranks)
    return from_trace(name, trace, pieces, origin="model")


def from_trace(name: str, trace: Trace, pieces: int = 1, origin: str = "trace") -> Schedule:
    """Return the schedule of the collective that a trace recorded on one communicator.

    All messages that are not of :mod:`helpers.collectives` (their tag tells) are left out.
    ValueError for several communicators, for messages that do not carry whole chunks, and for calls
    that never end.
    """
    collective = find(name)
    ours = [i for i, e in enumerate(trace.events) if isinstance(e.tag, int) and e.tag >= FIRST_TAG]
    used = {trace.events[i].comm for i in ours}
    if len(used) > 1:
        raise ValueError(f"the trace must hold one collective; it has messages on {len(used)}")
    members = trace.communicators[used.pop()] if used else trace.ranks
    index = {rank: i for i, rank in enumerate(members)}
    messages = tuple(m for m in trace.messages if m.tag >= FIRST_TAG)
    steps = rounds(replace(trace, messages=messages))
    waiting = {m.dest for m, step in zip(messages, steps, strict=True) if not step}
    waiting |= {
        trace.events[i].rank for i in {*trace.unmatched_sends, *trace.unmatched_receives} & {*ours}
    }
    if waiting:
        raise ValueError(f"{name}: the calls of ranks {sorted(waiting)} never end")
    ranks, chunks = len(members), collective.chunks(len(members), pieces)
    transfers = sorted(
        Transfer(step, index[m.source], index[m.dest], chunk)
        for m, step in zip(messages, steps, strict=True)
        for chunk in _carried(m, name, chunks)
    )
    held = tuple(
        tuple(
            frozenset(collective.held(rank, chunk, chunk * ranks // chunks))
            for chunk in range(chunks)
        )
        for rank in range(ranks)
    )
    return Schedule(name, ranks, pieces, chunks, tuple(transfers), held, origin, collective.title)


def _carried(message: Message, name: str, chunks: int) -> range:
    """Return the chunks that a message of :func:`perform` carries, by its tag and its bytes."""
    first, (count, rest) = message.tag - FIRST_TAG, divmod(message.bytes, NUMBER)
    if rest or not 0 < count <= chunks - first:
        raise ValueError(
            f"{name}: a message under tag {FIRST_TAG} + c expects {NUMBER} bytes for each of one "
            f"or more chunks from c, of {chunks}; got {message.bytes} bytes from rank "
            f"{message.source} under tag {message.tag}"
        )
    return range(first, first + count)
