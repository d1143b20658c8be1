"""The space-time diagram as SVG: each box and arrow tells about itself under the pointer."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from html import escape
from typing import TYPE_CHECKING

from helpers.plots.timeline import COLOURS, LEAST, NAMES, check, size, unit_of
from helpers.plots.web.page import HERE
from helpers.timing import seconds

if TYPE_CHECKING:
    from IPython.display import HTML

    from helpers.tracing.trace import Event, Trace

MOST = 1500  # calls, and messages, that are drawn
OWN = "\0"  # ends the names that parts of one SVG call each other by, until its own ending is known


def timeline_html(trace: Trace) -> HTML:
    """Draw a trace as SVG whose boxes and arrows tell about themselves under the pointer.

    Of more than 1500 calls (or messages) the longest are drawn; a line says how many are not.
    It needs no script. ValueError for a trace without events.
    """
    from IPython.display import HTML

    check(trace)
    width, left, top, lane_height = 900, 78, 34, 58
    lanes = {rank: top + lane_height * i for i, rank in enumerate(trace.ranks)}
    factor, unit = unit_of(trace.duration)
    scale = (width - left - 20) / (trace.duration or 1.0)
    box = 30
    events = _longest(trace.events, lambda e: max(e.duration, (e.done or 0) - e.begin))
    messages = _longest(trace.messages, lambda m: m.end - m.begin)
    height = top + lane_height * len(lanes) + 40

    def x(moment: float) -> str:
        return f"{left + moment * scale:.1f}"

    parts = [_head(width, height, _summary(trace))]
    for rank, y in lanes.items():
        parts.append(f'<text x="4" y="{y + 20}">rank {rank}</text>')
        parts.append(f'<path class="lane" d="M{left} {y + box // 2}H{width - 10}"/>')
    for event in events:
        y, colour = lanes[event.rank], COLOURS[event.kind]
        parts.append(f"<g><title>{escape(_told(trace, event))}</title>")
        if event.done is not None:
            span = max((event.done - event.begin) * scale, 1)
            under = y + box + (9 if event.kind == "receive" else 3)
            parts.append(
                f'<rect x="{x(event.begin)}" y="{under}" width="{span:.1f}" height="5" '
                f'fill="{colour}"/>'
            )
        if event.waiting > 0:
            parts.append(
                f'<rect x="{x(event.begin)}" y="{y}" width="{event.waiting * scale:.1f}" '
                f'height="{box}" fill="url(#hatch{OWN})" stroke="{colour}"/>'
            )
        span = max((event.duration - event.waiting) * scale, LEAST)
        parts.append(
            f'<rect x="{x(event.begin + event.waiting)}" y="{y}" width="{span:.1f}" '
            f'height="{box}" fill="{colour}"/></g>'
        )
    for message in messages:
        down = lanes[message.dest] >= lanes[message.source]
        y0 = lanes[message.source] + (box if down else 0)
        y1 = lanes[message.dest] + (0 if down else box)
        told = (
            f"message from rank {message.source} to rank {message.dest}: {size(message.bytes)}, "
            f"tag {message.tag}, {seconds(message.end - message.begin)} from send to receipt"
        )
        parts.append(
            f'<path class="arrow" marker-end="url(#head{OWN})" '
            f'd="M{x(message.begin)} {y0}L{x(message.end)} {y1}"><title>{told}</title></path>'
        )
    parts += _axis(trace.duration, factor, unit, x, top + lane_height * len(lanes))
    parts += _svg_legend(trace, left)
    left_out = len(trace.events) - len(events) + len(trace.messages) - len(messages)
    note = (
        f"<div>The {left_out} shortest calls and messages are not drawn.</div>" if left_out else ""
    )
    text = "".join([*parts, "</svg>", note])
    # a name is the whole page's: with equal ones a diagram would lean on the first of the page
    return HTML(text.replace(OWN, hashlib.sha256(text.encode()).hexdigest()[:8]))


def _summary(trace: Trace) -> str:
    """The diagram in words, for those who do not see it: how many calls of what, and the waiting.

    The SVG is a group and no image, since a reader is not shown what an image holds: here the
    title of each call and message.
    """
    lines = []
    for rank in trace.ranks:
        own = [event for event in trace.events if event.rank == rank]
        calls = ", ".join(f"{n} {call}" for call, n in Counter(e.call for e in own).most_common(4))
        more = ", …" if len({event.call for event in own}) > 4 else ""
        waited = sum(event.waiting for event in own)
        waits = f", {seconds(waited)} waiting for others" if waited > 0 else ""
        lines.append(f"rank {rank}: {calls or 'no call'}{more}{waits}")
    return (
        f"timeline of {_many(len(trace.events), 'MPI call')} and "
        f"{_many(len(trace.messages), 'message')} in {seconds(trace.duration)}; {'; '.join(lines)}"
    )


def _many(n: int, thing: str) -> str:
    return f"{n} {thing}{'' if n == 1 else 's'}"


def _head(width: float, height: float, label: str) -> str:
    """The beginning of the SVG: its name and style, the hatching and the head of the arrows."""
    style = (HERE / "timeline.css").read_text("utf-8")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="timeline course-figure" '
        f'viewBox="0 0 {width} {height}" '
        f'role="group" aria-label="{escape(label)}"><style>{style}</style><defs>'
        f'<pattern id="hatch{OWN}" width="6" height="6" patternUnits="userSpaceOnUse" '
        'patternTransform="rotate(45)"><rect width="6" height="6" fill="#fff"/>'
        '<path d="M0 0V6" stroke="#777" stroke-width="2"/></pattern>'
        f'<marker id="head{OWN}" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto-start-reverse"><path d="M0 0L8 4L0 8z"/></marker></defs>'
    )


def _longest(items: Sequence, length: Callable) -> list:
    kept = set(sorted(range(len(items)), key=lambda i: -length(items[i]))[:MOST])
    return [item for i, item in enumerate(items) if i in kept]


def _told(trace: Trace, event: Event) -> str:
    peer = {"all": "every rank"}.get(event.peer, event.peer)
    lines = [f"rank {event.rank}: {event.call}"]
    if isinstance(peer, int):
        role = {"send": "to", "receive": "from", "collective": "root", "wait": "with"}
        lines.append(f"{role.get(event.kind, 'to')} rank {peer}".replace("root rank", "root: rank"))
    elif peer is not None:
        lines.append(f"peer: {peer}")
    if event.received:
        lines.append(f"received {size(event.received[2])} from rank {event.received[0]}")
    if event.tag is not None:
        lines.append(f"tag {event.tag}")
    if event.bytes:
        lines.append(size(event.bytes))
    lines.append(f"{seconds(event.duration)}, at {seconds(event.begin)}")
    if event.waiting > 0:
        lines.append(f"of which {seconds(event.waiting)} waiting for the other side")
    if event.done is not None:
        lines.append(f"complete {seconds(event.done - event.begin)} after the call")
    return "\n".join(lines)


def _axis(duration: float, factor: float, unit: str, x: Callable, y: float) -> list[str]:
    from matplotlib.ticker import MaxNLocator

    ticks = [t for t in MaxNLocator(8).tick_values(0, duration * factor) if t <= duration * factor]
    marks = [
        f'<text x="{x(t / factor)}" y="{y + 12}" text-anchor="middle">{t:g}</text>' for t in ticks
    ]
    return [*marks, f'<text x="{x(0)}" y="{y + 32}">time since the first call [{unit}]</text>']


def _svg_legend(trace: Trace, left: float) -> list[str]:
    parts, at = [], left
    entries = [(COLOURS[k], NAMES[k]) for k in COLOURS if any(e.kind == k for e in trace.events)]
    if any(event.waiting for event in trace.events):
        entries.append((f"url(#hatch{OWN})", "waiting for the other side"))
    for fill, name in entries:
        parts.append(f'<rect x="{at}" y="6" width="16" height="14" fill="{fill}" stroke="#777"/>')
        parts.append(f'<text x="{at + 21}" y="18">{name}</text>')
        at += 34 + 8.6 * len(name)
    return parts
