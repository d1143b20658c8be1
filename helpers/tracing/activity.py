"""What one process is doing in MPI right now, and, while recording, what it did."""

from __future__ import annotations

# One recorded call is a tuple of these ten (a list for a non-blocking call or a poll, which is
# completed later). COMM names the communicator alike on all its ranks; PEER is a world rank, or a
# name; BEGIN, END and DONE are in ns of time.perf_counter_ns. MORE is, for an exchange, what was
# received, (peer, tag, bytes); for a wait, the records of the calls that it completed.
CALL, KIND, COMM, PEER, TAG, BYTES, BEGIN, END, DONE, MORE = range(10)
Record = tuple | list

# Kinds: what the sizes and peers of a record mean, and which box a drawing gets.
SEND, RECEIVE, EXCHANGE, COLLECTIVE, WAIT, PROBE = (
    "send",
    "receive",
    "exchange",
    "collective",
    "wait",
    "probe",
)


class Recorder:
    """One process's current MPI call and, while recording, the list of its calls.

    ``current`` is None, or ``(call, peer, tag, begin_ns, members)`` of the MPI call under way:
    ``peer`` is a rank of ``COMM_WORLD``, or a name ("ANY_SOURCE", "PROC_NULL", "all"), or a tuple
    of those for a call that waits for several; ``begin_ns`` is read from
    ``time.perf_counter_ns``; ``members`` are the ranks of ``COMM_WORLD`` in the communicator.
    Any thread may read it at any time.

    ``events`` is None, or, while recording, the list of the calls that returned. It holds at most
    ``limit`` records; later calls are only counted, in ``dropped``.

    Raises ValueError for ``limit`` < 1.
    """

    __slots__ = ("_counts", "current", "dropped", "events", "limit", "log")

    def __init__(self, limit: int = 1_000_000) -> None:
        if limit < 1:
            raise ValueError(f"Recorder expects limit >= 1 record; got {limit!r}")
        self.current: tuple | None = None
        self.events: list[Record] | None = None
        self.limit = limit
        self.dropped = 0
        self.log: tuple | None = None  # what helpers.tracing.trace.record recorded last
        self._counts: dict = {}

    def start(self) -> None:
        """Record every call from here on, beginning with an empty list."""
        self.dropped = 0
        self.events = []

    def stop(self) -> list[Record]:
        """Record no more; return the calls recorded since :meth:`start` ([] if it never ran)."""
        events, self.events = self.events, None
        return events or []

    def add(self, record: Record) -> None:
        """Keep one record, or only count it when the list is full."""
        events = self.events
        if events is None:  # stopped by another thread during the call
            return
        if len(events) < self.limit:
            events.append(record)
        else:
            self.dropped += 1

    def poll(self, record: list) -> None:
        """Keep the record of a poll in vain; one that follows another alike stretches that."""
        last = self.events[-1] if self.events else None
        if type(last) is list and last[:BYTES] == record[:BYTES] and last[MORE] is None:
            last[END] = record[END]
        else:
            self.add(record)

    def count(self, key) -> int:
        """How often ``key`` was counted before: numbers communicators alike on all their ranks."""
        seen = self._counts.get(key, 0)
        self._counts[key] = seen + 1
        return seen
