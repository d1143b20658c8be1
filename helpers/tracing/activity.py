"""What one process is doing in MPI right now, and, while recording, what it did."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

# One recorded call: a tuple of these ten, or a list for one that is completed later (non-blocking,
# or a poll); a NamedTuple takes several times as long to make. COMM names the communicator alike on
# all its ranks; PEER is a world rank, or a name; BEGIN, END and DONE are in ns of
# time.perf_counter_ns. MORE is, for an exchange, what was received, (peer, tag, bytes); for a wait,
# the calls that it completed.
Call = tuple | list
NAME, KIND, COMM, PEER, TAG, BYTES, BEGIN, END, DONE, MORE = range(10)

# Kinds: what the sizes and peers of a call mean, and which box a drawing gets.
SEND, RECEIVE, EXCHANGE, COLLECTIVE, WAIT, PROBE = (
    "send",
    "receive",
    "exchange",
    "collective",
    "wait",
    "probe",
)

LIMIT = 1_000_000  # calls that a recording holds


class Recorder:
    """One process's current MPI call and, while recording, the list of its calls.

    Attributes
    ----------
    current : tuple or None
        ``(call, peer, tag, begin_ns, members)`` of the MPI call under way. ``peer`` is a rank of
        ``COMM_WORLD``, or a name ("ANY_SOURCE", "PROC_NULL", "all"), or a tuple of those for a call
        that waits for several; ``begin_ns`` is read from ``time.perf_counter_ns``; ``members`` are
        the ranks of ``COMM_WORLD`` in the communicator. Any thread may read it at any time.
    events : list of Call or None
        While recording, the calls that returned.
    dropped : int
        How many calls the recording did not hold: it holds a million, and counts later ones.

    Examples
    --------
    >>> from mpi4py import MPI
    >>> from helpers.tracing import TracedComm
    >>> recorder = Recorder()
    >>> comm = TracedComm(MPI.COMM_SELF, recorder)
    >>> recorder.start()
    >>> comm.allreduce(3)
    3
    >>> [(call[NAME], call[PEER]) for call in recorder.stop()]
    [('allreduce', 'all')]
    """

    __slots__ = ("_counts", "current", "dropped", "events", "held", "log")

    def __init__(self) -> None:
        self.current: tuple | None = None
        self.events: list[Call] | None = None
        self.dropped = 0
        self.held: list | None = None  # requests that live on though the program drops them
        self.log: tuple | None = None  # what helpers.tracing.record recorded last, for gather
        self._counts: dict[Hashable, int] = {}

    def start(self) -> None:
        """Record every call from here on, beginning with an empty list."""
        self.dropped = 0
        self.events = []

    def stop(self) -> list[Call]:
        """Record no more; return the calls since :meth:`start`, or [] if it never ran."""
        events, self.events = self.events, None
        return events or []

    def add(self, call: Call) -> None:
        """Keep one call, or only count it when the list is full."""
        events = self.events
        if events is None:  # stopped by another thread during the call
            return
        if len(events) < LIMIT:
            events.append(call)
        else:
            self.dropped += 1

    def poll(self, call: list) -> None:
        """Keep a poll in vain, a test or probe; one that follows another alike stretches that."""
        last = self.events[-1] if self.events else None
        if type(last) is list and last[:BYTES] == call[:BYTES] and last[MORE] is None:
            last[END] = call[END]
        else:
            self.add(call)

    def count(self, key: Hashable) -> int:
        """Number communicators alike on all their ranks: how often ``key`` was counted before."""
        seen = self._counts.get(key, 0)
        self._counts[key] = seen + 1
        return seen


class Watched:
    """What a traced communicator knows about itself, for those who watch its calls."""

    recorder: Recorder
    identity: Any
    _world: dict[int, Any]  # rank in it, ANY_SOURCE or PROC_NULL -> rank of COMM_WORLD, or name
    _members: tuple  # ranks of COMM_WORLD
    _adopt: Callable[[Any, str], Any]  # of a communicator that a call made, and the call's name
