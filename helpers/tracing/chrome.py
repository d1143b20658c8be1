"""A trace in Google's Trace Event Format, which ui.perfetto.dev and chrome://tracing open.

Format: "Trace Event Format", Google, 2016. Times are in microseconds; a rank is a thread; a message
is a flow, drawn as an arrow from the sending call to the call that completed the receive.
"""

from __future__ import annotations

import json
from pathlib import Path

from helpers.tracing.trace import Trace


def save_chrome(trace: Trace, path: str | Path) -> Path:
    """Write a trace to a file to be opened in ui.perfetto.dev."""
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
