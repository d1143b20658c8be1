"""The recorded MPI calls of all ranks in one: a common clock, matched messages, counts.

In a script under ``mpiexec``, or in a ``%%ranks`` cell::

    with record(comm) as traced:
        work(traced)
    trace = gather(traced)  # a Trace on rank 0, None elsewhere
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from helpers.tracing.clock import Clock, measure_offset


@dataclass(frozen=True)
class Event:
    """One MPI call of one rank; times in seconds since the first call of any rank.

    ``kind`` is "send", "receive", "exchange", "collective", "wait" or "probe". ``peer`` is a rank
    of ``COMM_WORLD`` or a name ("all", "ANY_SOURCE", "PROC_NULL"). ``bytes`` are those sent by a
    send or an exchange, got by a receive, completed by a wait, put in by this rank in a collective.
    ``done`` is when a non-blocking call was found complete, ``completes`` the events that a wait
    completed, ``received`` (peer, tag, bytes) of what an exchange got. ``waiting`` is how long,
    from ``begin``, nothing could move because the other side was not there yet.
    """

    rank: int
    call: str
    kind: str
    comm: int
    peer: int | str | tuple | None
    tag: int | str | None
    bytes: int
    begin: float
    end: float
    done: float | None = None
    completes: tuple[int, ...] = ()
    received: tuple | None = None
    waiting: float = 0.0

    @property
    def duration(self) -> float:
        """Seconds between call and return."""
        return self.end - self.begin


@dataclass(frozen=True)
class Message:
    """A send and the receive that got it, as indices of events; times in seconds.

    ``begin`` is when the send was called, ``end`` when the receiver had the message: at the return
    of ``completed_in``, the receive itself or the wait that completed it.
    """

    source: int
    dest: int
    tag: int
    bytes: int
    comm: int
    send: int
    receive: int
    completed_in: int
    begin: float
    end: float


@dataclass(frozen=True)
class Trace:
    """What all ranks did: events in order of begin, and messages in order of sending.

    ``unmatched_sends`` and ``unmatched_receives`` are indices of events whose message has no other
    side in this trace. ``clock_uncertainty`` says for each of ``ranks`` how far its times may be
    off against those of the first, in seconds; ``dropped`` how many calls were too many to record.
    ``communicators`` holds the members of each, as ranks of ``COMM_WORLD``.
    """

    ranks: tuple[int, ...]
    events: tuple[Event, ...]
    messages: tuple[Message, ...]
    unmatched_sends: tuple[int, ...] = ()
    unmatched_receives: tuple[int, ...] = ()
    clock_uncertainty: tuple[float, ...] = ()
    communicators: tuple[tuple, ...] = ()
    dropped: tuple[int, ...] = ()

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
        """Return the events of one rank, in order. Raises ValueError if it has none to have."""
        if rank not in self.ranks:
            raise ValueError(f"this trace has ranks {list(self.ranks)}; got {rank!r}")
        return [event for event in self.events if event.rank == rank]

    def bytes_sent(self) -> dict[int, int]:
        """Return the bytes that each rank sent in point-to-point messages."""
        return self._sum(lambda event: event.bytes, ("send", "exchange"))

    def messages_sent(self) -> dict[int, int]:
        """Return how many point-to-point messages each rank sent."""
        return self._sum(lambda event: 1, ("send", "exchange"))

    def bytes_received(self) -> dict[int, int]:
        """Return the bytes that each rank received in matched point-to-point messages."""
        got = dict.fromkeys(self.ranks, 0)
        for message in self.messages:
            got[message.dest] += message.bytes
        return got

    def waiting(self) -> dict[int, float]:
        """Return the seconds that each rank spent in calls whose other side was not there yet."""
        return self._sum(lambda event: event.waiting, None)

    def _sum(self, value, kinds) -> dict:
        totals = dict.fromkeys(self.ranks, 0)
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
        from helpers.tracing.rounds import rounds

        return max(rounds(self), default=0)

    def to_chrome(self) -> dict:
        """Return the trace in the Trace Event Format, which ui.perfetto.dev opens."""
        from helpers.tracing.chrome import to_chrome

        return to_chrome(self)

    def save_chrome(self, path: str | Path) -> Path:
        """Write :meth:`to_chrome` to a file to be opened in ui.perfetto.dev; return its path."""
        path = Path(path)
        path.write_text(json.dumps(self.to_chrome()))
        return path

    def to_json(self) -> str:
        """Return the whole trace as JSON (:meth:`from_json` reads it)."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Trace:
        """Read what :meth:`to_json` wrote. Raises ValueError if it is something else."""
        try:
            fields = {
                name: _tupled(value) if isinstance(value, list) else value
                for name, value in json.loads(text).items()
            }
            fields["events"] = tuple(
                Event(**{k: _tupled(v) for k, v in event.items()}) for event in fields["events"]
            )
            fields["messages"] = tuple(Message(**message) for message in fields["messages"])
            return cls(**fields)
        except (AttributeError, KeyError, TypeError, json.JSONDecodeError) as error:
            raise ValueError(
                f"from_json expects what Trace.to_json wrote; got {text[:60]!r}"
            ) from error


def _tupled(value):
    return tuple(_tupled(item) for item in value) if isinstance(value, list) else value


@contextmanager
def record(comm=None) -> Iterator:
    """Record the MPI calls on ``comm`` (default ``COMM_WORLD``); yield it, traced.

    Every rank of ``comm`` must take part, since their clocks are compared first. Use the yielded
    communicator; one that is traced already is yielded itself. Afterwards see :func:`gather`.
    """
    from mpi4py import MPI

    from helpers.tracing.communicator import Traced, TracedComm, installed_requests

    comm = MPI.COMM_WORLD if comm is None else comm
    traced = comm if isinstance(comm, Traced) else TracedComm(comm)
    recorder = traced.recorder
    clock = measure_offset(comm)
    outer, recorder.events = recorder.events, []
    try:
        with installed_requests():
            yield traced
    finally:
        events = recorder.stop()
        if outer is not None:  # a recording around this one
            outer.extend(events)
            recorder.events = outer
        recorder.log = (events, clock, recorder.dropped)


def gather(traced, root: int = 0) -> Trace | None:
    """Bring what :func:`record` recorded on all ranks together on ``root``: a Trace; else None.

    Every rank must call it. Raises ValueError if nothing was recorded on this communicator.
    """
    from mpi4py import MPI

    log = getattr(getattr(traced, "recorder", None), "log", None)
    if log is None:
        raise ValueError(
            f"nothing was recorded: use `with record(comm) as traced:`; got {traced!r}"
        )
    plain = MPI.Intracomm(traced)
    if not 0 <= root < plain.size:
        raise ValueError(f"gather expects a root from 0 to {plain.size - 1}; got {root!r}")
    events, clock, dropped = log
    logs = plain.gather((traced.world_rank, events, clock + measure_offset(plain), dropped), root)
    if logs is None:
        return None
    return build(
        {rank: events for rank, events, _, _ in logs},
        {rank: clock for rank, _, clock, _ in logs},
        {rank: dropped for rank, _, _, dropped in logs},
    )


def build(
    records: dict[int, list],
    clocks: dict[int, Clock] | None = None,
    dropped: dict[int, int] | None = None,
) -> Trace:
    """Make a Trace of each world rank's records (of :class:`~helpers.tracing.activity.Recorder`).

    Without ``clocks`` the ranks are taken to share one, which is so within one computer.
    """
    from helpers.tracing.matching import assemble

    ranks = tuple(sorted(records))
    clocks = clocks or {}
    events, messages, lone_sends, lone_receives, communicators = assemble(
        {rank: records[rank] or [] for rank in ranks},
        {rank: clocks.get(rank, Clock()) for rank in ranks},
    )
    return Trace(
        ranks,
        tuple(events),
        tuple(messages),
        tuple(lone_sends),
        tuple(lone_receives),
        tuple(clocks.get(rank, Clock()).uncertainty * 1e-9 for rank in ranks),
        tuple(communicators),
        tuple((dropped or {}).get(rank, 0) for rank in ranks),
    )
