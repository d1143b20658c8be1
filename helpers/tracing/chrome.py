"""A trace in Google's Trace Event Format, which ui.perfetto.dev and chrome://tracing open.

Format: "Trace Event Format", Google, 2016. Times are in microseconds; a rank is a thread; a message
is a flow, drawn as an arrow from the sending call to the call that completed the receive.
"""

from __future__ import annotations

import json
from pathlib import Path

from helpers.tracing.trace import Event, Message, Trace


def save_chrome(trace: Trace, path: str | Path) -> Path:
    """Write a trace to a file to be opened in ui.perfetto.dev."""
    path = Path(path)
    path.write_text(json.dumps(_chrome(trace)))
    return path


def _chrome(trace: Trace) -> dict:
    """Return the trace as the JSON object that the format prescribes."""
    items: list[dict] = [
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "MPI ranks"}}
    ]
    for rank in trace.ranks:
        items += _thread(rank)
    items += [_box(event) for event in trace.events]
    for number, message in enumerate(trace.messages):
        items += _arrow(number, message, trace.events[message.completed_in])
    return {"traceEvents": items, "displayTimeUnit": "ms"}


def _thread(rank: int) -> list[dict]:
    about = {"ph": "M", "pid": 0, "tid": rank}
    return [
        {**about, "name": "thread_name", "args": {"name": f"rank {rank}"}},
        {**about, "name": "thread_sort_index", "args": {"sort_index": rank}},
    ]


def _box(event: Event) -> dict:
    return {
        "ph": "X",
        "name": event.call,
        "cat": event.kind,
        "pid": 0,
        "tid": event.rank,
        "ts": event.begin * 1e6,
        "dur": event.duration * 1e6,
        "args": _arguments(event),
    }


def _arguments(event: Event) -> dict:
    arguments = {
        "peer": event.peer,
        "tag": event.tag,
        "bytes": event.bytes,
        "waiting_us": round(event.waiting * 1e6, 3),
        "communicator": event.comm,
    }
    return {name: value for name, value in arguments.items() if value is not None}


def _arrow(number: int, message: Message, end: Event) -> list[dict]:
    flow = {"name": "message", "cat": "message", "id": number, "pid": 0}
    # The arrow binds to the slice around its end, so it must end inside it.
    at = end.begin + 0.99 * end.duration
    return [
        {**flow, "ph": "s", "tid": message.source, "ts": message.begin * 1e6},
        {**flow, "ph": "f", "bp": "e", "tid": message.dest, "ts": at * 1e6},
    ]
