"""Record the MPI calls of a stretch of code on every rank, and bring them together in one trace."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.tracing.activity import Call
from helpers.tracing.clock import Clock, measure_offset
from helpers.tracing.matching import assemble
from helpers.tracing.trace import Trace

if TYPE_CHECKING:
    from mpi4py import MPI

    from helpers.tracing.communicator import TracedComm


@contextmanager
def record(comm: MPI.Intracomm | None = None) -> Iterator[TracedComm]:
    """Record the MPI calls on a communicator while the block runs; then see :func:`gather`.

    Every rank of ``comm`` (``MPI.COMM_WORLD`` unless given) must take part, since their clocks are
    compared first. Recordings may stand within one another; the calls of the inner one belong to
    both. Yields ``comm`` with the same handle, to be used in the block; one that is traced already
    is yielded itself.
    """
    from mpi4py import MPI

    from helpers.tracing.communicator import Traced, TracedComm, installed_requests

    comm = MPI.COMM_WORLD if comm is None else comm
    traced: Any = comm if isinstance(comm, Traced) else TracedComm(comm)
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


def gather(traced: TracedComm) -> Trace | None:
    """Bring together on rank 0 what :func:`record` recorded on all; every rank must call it.

    ``traced`` is what ``record`` yielded; other ranks get None. ValueError if nothing was recorded
    on this communicator.
    """
    from mpi4py import MPI

    log = getattr(getattr(traced, "recorder", None), "log", None)
    if log is None:
        raise ValueError(
            f"gather expects what `with record(comm) as traced:` gave; nothing was recorded on "
            f"{traced!r}"
        )
    plain = MPI.Intracomm(traced)
    events, clock, dropped = log
    logs = plain.gather((traced.world_rank, events, clock + measure_offset(plain), dropped))
    if logs is None:
        return None
    return build(
        {rank: events for rank, events, _, _ in logs},
        {rank: clock for rank, _, clock, _ in logs},
        {rank: dropped for rank, _, _, dropped in logs},
    )


def build(
    calls: Mapping[int, list[Call] | None],
    clocks: Mapping[int, Clock] | None = None,
    dropped: Mapping[int, int] | None = None,
) -> Trace:
    """Make a trace of the calls that a :class:`Recorder` of each rank kept.

    ``calls`` has for each rank of ``COMM_WORLD`` what ``Recorder.stop()`` returned; None is as good
    as []. Without the ``clocks`` of :func:`measure_offset` the ranks are taken to share one, which
    is so within one computer. ``dropped`` is ``Recorder.dropped`` of each.
    """
    ranks = tuple(sorted(calls))
    known = {rank: (clocks or {}).get(rank, Clock()) for rank in ranks}
    events, messages, sends, receives, communicators = assemble(
        {rank: calls[rank] or [] for rank in ranks}, known
    )
    return Trace(
        ranks,
        events,
        messages,
        sends,
        receives,
        tuple(known[rank].uncertainty * 1e-9 for rank in ranks),
        communicators,
        tuple((dropped or {}).get(rank, 0) for rank in ranks),
    )


def save_chrome(trace: Trace, path: str | Path) -> Path:
    """Write a trace to a file to be opened in ui.perfetto.dev.

    In Google's Trace Event Format (2016): times are in µs; a rank is a thread; a message is a flow,
    drawn as an arrow from the sending call to the call that completed the receive.
    """
    path = Path(path)
    path.write_text(json.dumps({"traceEvents": _items(trace), "displayTimeUnit": "ms"}))
    return path


def _items(trace: Trace) -> list[dict]:
    """Return names of the lanes, a box for each call, and two ends of an arrow for each message."""
    items: list[dict] = [{"ph": "M", "name": "process_name", "args": {"name": "MPI ranks"}}]
    for rank in trace.ranks:
        named = {"thread_name": {"name": f"rank {rank}"}, "thread_sort_index": {"sort_index": rank}}
        items += [{"ph": "M", "name": k, "tid": rank, "args": v} for k, v in named.items()]
    for event in trace.events:
        told = {
            "peer": event.peer,
            "tag": event.tag,
            "bytes": event.bytes,
            "waiting_us": round(event.waiting * 1e6, 3),
            "communicator": event.comm,
        }
        told = {name: value for name, value in told.items() if value is not None}
        box = {"name": event.call, "cat": event.kind, "tid": event.rank, "args": told}
        items.append({"ph": "X", "ts": event.begin * 1e6, "dur": event.duration * 1e6, **box})
    for number, message in enumerate(trace.messages):
        end = trace.events[message.completed_in]
        at = end.begin + 0.99 * end.duration  # it binds to the box around its end: inside
        flow = {"name": "message", "cat": "message", "id": number}
        items.append({**flow, "ph": "s", "tid": message.source, "ts": message.begin * 1e6})
        items.append({**flow, "ph": "f", "bp": "e", "tid": message.dest, "ts": at * 1e6})
    return [item | {"pid": 0} for item in items]
