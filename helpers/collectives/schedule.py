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

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from helpers.collectives.parts import FIRST_TAG, Hosts, lengths, one_host, split
from helpers.collectives.registry import COLLECTIVES, find
from helpers.tracing.activity import EXCHANGE, RECEIVE, SEND, Call
from helpers.tracing.recording import build
from helpers.tracing.trace import Message, Trace, rounds

__all__ = ["COLLECTIVES", "Schedule", "Transfer", "from_trace", "model"]

NUMBER = 8  # bytes: `Collective.perform` moves one float64 for each chunk


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


def model(name: str, ranks: int, pieces: int = 1, hosts: Hosts | None = None) -> Schedule:
    """Return the schedule of a collective for any number of ranks, found without running them.

    Parameters
    ----------
    pieces
        Into how many messages the array (for the ring's calls, each rank's part) is cut; scatter
        and gather always have one part a rank.
    hosts
        The host of each rank; None: all share one.

    Raises
    ------
    ValueError
        For an algorithm whose calls never end.
    """
    if ranks < 1 or pieces < 1:
        raise ValueError(
            f"a schedule needs ranks >= 1 and pieces >= 1; got ranks={ranks}, pieces={pieces}"
        )
    collective, where = find(name, COLLECTIVES), one_host(ranks) if hosts is None else hosts
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
    collective = find(name, COLLECTIVES)
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
    """Return the chunks that a message carries, by its tag and its bytes."""
    first, (count, rest) = message.tag - FIRST_TAG, divmod(message.bytes, NUMBER)
    if rest or not 0 < count <= chunks - first:
        raise ValueError(
            f"{name}: a message under tag {FIRST_TAG} + c expects {NUMBER} bytes for each of one "
            f"or more chunks from c, of {chunks}; got {message.bytes} bytes from rank "
            f"{message.source} under tag {message.tag}"
        )
    return range(first, first + count)


# What an algorithm sends depends on the number of ranks and on nothing that it receives. So running
# it once for every rank on a communicator that only writes down what it is asked gives the trace of
# any number of ranks: that is the *model*.


def dry_run(function: Callable[[DryComm], object], ranks: int) -> Trace:
    """Return the trace that ``function(comm)`` would leave on so many ranks.

    Times, in ns, only number a rank's calls.

    >>> import numpy as np
    >>> trace = dry_run(lambda comm: comm.Send(np.ones(2), 1 - comm.Get_rank()), ranks=2)
    >>> trace.bytes_sent(), len(trace.messages), trace.unmatched_sends
    ({0: 16, 1: 16}, 0, (0, 1))
    """
    comms = [DryComm(rank, ranks) for rank in range(ranks)]
    for comm in comms:
        function(comm)
    return build({rank: comm.calls for rank, comm in enumerate(comms)})


class DryComm:
    """Rank ``rank`` of ``n``: as much of mpi4py's communicator as the algorithms here use."""

    def __init__(self, rank: int, n: int):
        self._rank, self._n = rank, n
        self.calls: list[Call] = []

    def Get_rank(self) -> int:  # noqa: N802 - mpi4py's names
        """Return this rank's number."""
        return self._rank

    def Get_size(self) -> int:  # noqa: N802
        """Return the number of ranks."""
        return self._n

    def Send(self, buf: Any, dest: int, tag: int = 0) -> None:  # noqa: N802
        """Write down that an array is sent."""
        self._write("Send", SEND, dest, tag, buf.nbytes)

    def Isend(self, buf: Any, dest: int, tag: int = 0) -> Done:  # noqa: N802
        """Write down that an array is sent."""
        self._write("Isend", SEND, dest, tag, buf.nbytes)
        return Done()

    def Recv(self, buf: Any, source: int, tag: int = 0) -> None:  # noqa: N802
        """Write down that an array is received."""
        self._write("Recv", RECEIVE, source, tag, buf.nbytes)

    def Sendrecv(  # noqa: N802
        self, sendbuf: Any, dest: int, sendtag: int, recvbuf: Any, source: int, recvtag: int
    ) -> None:
        """Write down that one array is sent and another received."""
        received = (source, recvtag, recvbuf.nbytes)
        self._write("Sendrecv", EXCHANGE, dest, sendtag, sendbuf.nbytes, received)

    def _write(
        self, call: str, kind: str, peer: int, tag: int, size: int, received: tuple | None = None
    ) -> None:
        identity, begin = (None, "", tuple(range(self._n)), 0), len(self.calls)
        self.calls.append((call, kind, identity, peer, tag, size, begin, begin + 1, None, received))


class Done:
    """The request of a message that nobody sends: complete at once."""

    def Wait(self) -> None:  # noqa: N802
        """Return at once."""
