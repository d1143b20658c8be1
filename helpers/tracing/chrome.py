"""A trace in Google's Trace Event Format, which ui.perfetto.dev and chrome://tracing open.

Format: "Trace Event Format", Google, 2016. Times are in microseconds; a rank is a thread; a message
is a flow, drawn as an arrow from the sending call to the call that completed the receive.
"""

from __future__ import annotations

from helpers.tracing.trace import Event, Trace


def to_chrome(trace: Trace) -> dict:
    """Return the trace as the JSON object that the format prescribes."""
    items = [{"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "MPI ranks"}}]
    for rank in trace.ranks:
        name = {"name": f"rank {rank}"}
        items.append({"ph": "M", "name": "thread_name", "pid": 0, "tid": rank, "args": name})
        order = {"sort_index": rank}
        items.append({"ph": "M", "name": "thread_sort_index", "pid": 0, "tid": rank, "args": order})
    for event in trace.events:
        items.append(
            {
                "ph": "X",
                "name": event.call,
                "cat": event.kind,
                "pid": 0,
                "tid": event.rank,
                "ts": event.begin * 1e6,
                "dur": event.duration * 1e6,
                "args": _arguments(event),
            }
        )
    for number, message in enumerate(trace.messages):
        flow = {"name": "message", "cat": "message", "id": number, "pid": 0}
        end = trace.events[message.completed_in]
        items.append({**flow, "ph": "s", "tid": message.source, "ts": message.begin * 1e6})
        # The arrow binds to the slice around its end, so it must end inside it.
        at = end.begin + 0.99 * end.duration
        items.append({**flow, "ph": "f", "bp": "e", "tid": message.dest, "ts": at * 1e6})
    return {"traceEvents": items, "displayTimeUnit": "ms"}


def _arguments(event: Event) -> dict:
    arguments = {
        "peer": event.peer,
        "tag": event.tag,
        "bytes": event.bytes,
        "waiting_us": round(event.waiting * 1e6, 3),
        "communicator": event.comm,
    }
    return {name: value for name, value in arguments.items() if value is not None}
