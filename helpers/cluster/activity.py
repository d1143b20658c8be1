"""What one process is doing in MPI right now, and, while recording, what it did."""

from __future__ import annotations

#: One recorded call. A list, because what a non-blocking receive got is filled in when it is done:
#: [call, comm, peer, tag, bytes, begin_ns, end_ns, sent, received, done_ns, completes]
#: where ``sent`` and ``received`` are None or (comm, world rank, tag, bytes), and ``completes`` is
#: the tuple of earlier records (of non-blocking calls) that this call completed.
Record = list


class Recorder:
    """One process's current MPI call and, while recording, the list of its calls.

    ``current`` is None, or ``(call, peer, tag, begin_ns, comm_size)`` of the outermost MPI call
    under way: ``peer`` is a rank of ``COMM_WORLD``, or a name ("ANY_SOURCE", "PROC_NULL", "all"),
    or a tuple of those for a call that waits for several; ``begin_ns`` is read from
    ``time.perf_counter_ns``. Any thread may read it at any time.

    ``events`` is None, or, while recording, the list of the calls that returned. It holds at most
    ``limit`` records; later calls are only counted, in ``dropped``.
    """

    __slots__ = ("_counts", "current", "dropped", "events", "limit")

    def __init__(self, limit: int = 1_000_000) -> None:
        if limit < 1:
            raise ValueError(f"Recorder expects limit >= 1 event; got {limit!r}")
        self.current: tuple | None = None
        self.events: list[Record] | None = None
        self.limit = limit
        self.dropped = 0
        self._counts: dict = {}

    def start(self) -> None:
        """Record every call from here on, beginning with an empty list."""
        self.dropped = 0
        self.events = []

    def stop(self) -> list[Record]:
        """Record no more; return the calls recorded since :meth:`start` ([] if it never ran)."""
        events, self.events = self.events, None
        return events or []

    def add(self, events: list[Record], record: Record) -> None:
        """Append one record to ``events``, or count it as dropped when the list is full."""
        if len(events) < self.limit:
            events.append(record)
        else:
            self.dropped += 1

    def count(self, key) -> int:
        """How often ``key`` was counted before: numbers communicators alike on all their ranks."""
        seen = self._counts.get(key, 0)
        self._counts[key] = seen + 1
        return seen

    def poll(self, events: list[Record], record: Record) -> None:
        """Append the record of a poll in vain; one that follows another alike stretches it."""
        last = events[-1] if events else None
        if last and last[0] == record[0] and last[2:5] == record[2:5] and not any(last[7:]):
            last[6] = record[6]
        else:
            self.add(events, record)
