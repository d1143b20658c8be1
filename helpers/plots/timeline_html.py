"""The space-time diagram as SVG: each box and arrow tells about itself under the pointer."""

from __future__ import annotations

from html import escape

from helpers.plots.style import VERMILION
from helpers.plots.timeline import COLOURS, NAMES, check, size, unit_of
from helpers.timing import seconds


def timeline_html(trace, width: int = 900, limit: int = 1500):
    """Draw the trace as SVG whose boxes and arrows tell about themselves under the pointer.

    Returns an ``IPython.display.HTML``, self-contained and without scripts. Of more than ``limit``
    calls (or messages) the longest are drawn, and a line says how many are not.

    Raises ValueError for a trace without events.
    """
    from IPython.display import HTML

    return HTML(timeline_svg(trace, width, limit))


def timeline_svg(trace, width: int = 900, limit: int = 1500) -> str:
    """Return the SVG of :func:`timeline_html` as text."""
    check(trace)
    left, top, lane_height = 70, 34, 58
    lanes = {rank: top + lane_height * i for i, rank in enumerate(trace.ranks)}
    factor, unit = unit_of(trace.duration)
    scale = (width - left - 20) / (trace.duration or 1.0)
    box = 30
    events = _longest(trace.events, limit, lambda e: max(e.duration, (e.done or 0) - e.begin))
    messages = _longest(trace.messages, limit, lambda m: m.end - m.begin)
    height = top + lane_height * len(lanes) + 34

    def x(moment: float) -> str:
        return f"{left + moment * scale:.1f}"

    parts = [_HEAD.format(width=width, height=height)]
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
                f'height="{box}" fill="url(#hatch)" stroke="{colour}"/>'
            )
        span = max((event.duration - event.waiting) * scale, 1.5)
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
            f'<path class="arrow" marker-end="url(#head)" '
            f'd="M{x(message.begin)} {y0}L{x(message.end)} {y1}"><title>{told}</title></path>'
        )
    parts += _axis(trace.duration, factor, unit, x, top + lane_height * len(lanes))
    parts += _svg_legend(trace, left)
    left_out = len(trace.events) - len(events) + len(trace.messages) - len(messages)
    note = (
        f"<div>The {left_out} shortest calls and messages are not drawn.</div>" if left_out else ""
    )
    return "".join([*parts, "</svg>", note])


_HEAD = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
    'aria-label="timeline of MPI calls" style="max-width:100%;background:white;'
    'font:13px sans-serif"><style>.lane{{stroke:#ddd}}.arrow{{stroke:#000;stroke-width:1.3;'
    "fill:none}}.arrow:hover{{stroke:" + VERMILION + ";stroke-width:3}}g:hover rect{{stroke:#000;"
    "stroke-width:2}}</style><defs>"
    '<pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="6" height="6" fill="#fff"/>'
    '<path d="M0 0V6" stroke="#777" stroke-width="2"/></pattern>'
    '<marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z"/></marker></defs>'
)


def _longest(items, limit: int, length) -> list:
    if len(items) <= limit:
        return list(items)
    kept = set(sorted(range(len(items)), key=lambda i: -length(items[i]))[:limit])
    return [item for i, item in enumerate(items) if i in kept]


def _told(trace, event) -> str:
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


def _axis(duration: float, factor: float, unit: str, x, y: float) -> list[str]:
    from matplotlib.ticker import MaxNLocator

    ticks = [t for t in MaxNLocator(8).tick_values(0, duration * factor) if t <= duration * factor]
    marks = [
        f'<text x="{x(t / factor)}" y="{y + 12}" text-anchor="middle">{t:g}</text>' for t in ticks
    ]
    return [*marks, f'<text x="{x(0)}" y="{y + 30}">time since the first call [{unit}]</text>']


def _svg_legend(trace, left: float) -> list[str]:
    parts, at = [], left
    entries = [(COLOURS[k], NAMES[k]) for k in COLOURS if any(e.kind == k for e in trace.events)]
    if any(event.waiting for event in trace.events):
        entries.append(("url(#hatch)", "waiting for the other side"))
    for fill, name in entries:
        parts.append(f'<rect x="{at}" y="6" width="16" height="14" fill="{fill}" stroke="#777"/>')
        parts.append(f'<text x="{at + 21}" y="18">{name}</text>')
        at += 34 + 7.2 * len(name)
    return parts
