"""Space-time diagrams of message passing: time to the right, a lane for each rank.

The picture is Lamport's (1978, "Time, clocks, and the ordering of events in a distributed system"),
turned on its side, with a box for each call. Any object with the fields of
:class:`helpers.tracing.Trace` can be drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from helpers.plots.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, ensure_axes, ink

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from helpers.tracing.trace import Trace

COLOURS = {
    "send": BLUE,
    "receive": GREEN,
    "exchange": SKY,
    "collective": PURPLE,
    "wait": ORANGE,
    "probe": GREY,
}
NAMES = {
    "send": "send",
    "receive": "receive",
    "exchange": "send and receive",
    "collective": "collective",
    "wait": "wait or test",
    "probe": "probe",
}
HEIGHT = 0.56  # of a lane
LEAST = 5  # pixels: a call of a microsecond is still a box


def size(n: float) -> str:
    """Format a number of bytes, in powers of ten.

    >>> size(999), size(1500), size(8_000_000)
    ('999 B', '1.5 kB', '8 MB')
    """
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if n >= factor:
            return f"{n / factor:.3g} {unit}"
    return f"{n:.0f} B"


def unit_of(duration: float) -> tuple[float, str]:
    """Return the unit in which a duration (s) reads well: how many make a second, and its name."""
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if duration * factor >= 2:
            return factor, unit
    return 1e6, "µs"


def timeline(
    trace: Trace,
    *,
    title: str = "",
    labels: bool = True,
    tags: Mapping[int, str] | None = None,
) -> Axes:
    """Draw a recorded trace.

    A solid box is a call at work; the hatched part of a box is waiting: the other side had not come
    yet. A thin bar under the lane runs from a non-blocking call until it was found complete. Arrows
    run from where a send was called to where the receiver had the message.

    ``tags`` has what stands on a message of a tag, in place of its size.
    """
    check(trace)
    lanes = {rank: lane for lane, rank in enumerate(trace.ranks)}
    ax = ensure_axes(figsize=(11, 1.7 + 0.85 * len(lanes)))
    factor, unit = unit_of(trace.duration)
    ax.set_xlim(-0.01 * trace.duration * factor, 1.01 * trace.duration * factor)
    ax.set_ylim(len(lanes) - 0.4, -0.6)
    ax.set_yticks(range(len(lanes)), [f"rank {rank}" for rank in lanes])
    ax.set_xlabel(f"time since the first call [{unit}]")
    ax.grid(False, axis="y")
    for lane in lanes.values():
        ax.axhline(lane, color="#DDDDDD", linewidth=1, zorder=0)
    _boxes(trace, ax, lanes, factor)
    free = _Free()
    if labels:
        _names(trace, ax, lanes, factor, free)
    _arrows(trace, ax, lanes, factor, free if labels else None, tags or {})
    _legend(trace, ax)
    if title:
        ax.set_title(title, pad=26)  # points: the legend stands in between
    return ax


def check(trace: Trace) -> None:
    """Refuse a trace in which there is nothing to draw."""
    if not trace.events:
        raise ValueError("timeline expects a trace with at least one event; this one has none")


def _boxes(trace: Trace, ax: Axes, lanes: dict, factor: float) -> None:
    least = LEAST / _pixels(ax)[0]
    for kind, colour in COLOURS.items():
        edge = _darker(colour)  # tells neighbours apart
        under = 0.10 if kind == "receive" else 0.02  # sent and received side by side
        for rank, lane in lanes.items():
            events = [e for e in trace.events if e.kind == kind and e.rank == rank]
            top = lane - HEIGHT / 2
            busy = [
                ((e.begin + e.waiting) * factor, max((e.duration - e.waiting) * factor, least))
                for e in events
            ]
            idle = [(e.begin * factor, e.waiting * factor) for e in events if e.waiting > 0]
            flight = [
                (e.begin * factor, (e.done - e.begin) * factor)
                for e in events
                if e.done is not None
            ]
            style = {"edgecolor": edge, "linewidth": 1.2, "zorder": 2}
            ax.broken_barh(busy, (top, HEIGHT), facecolor=colour, **style)
            ax.broken_barh(idle, (top, HEIGHT), facecolor="white", hatch="////", **style)
            ax.broken_barh(flight, (lane + HEIGHT / 2 + under, 0.07), facecolor=colour, linewidth=0)


def _darker(colour: str) -> tuple:
    from matplotlib.colors import to_rgb

    return tuple(0.6 * part for part in to_rgb(colour))


def _arrows(
    trace: Trace, ax: Axes, lanes: dict, factor: float, free: _Free | None, tags: Mapping[int, str]
) -> None:
    ends = []
    for message in trace.messages:
        source, dest = lanes[message.source], lanes[message.dest]
        side = HEIGHT / 2 if dest > source else -HEIGHT / 2  # leave the box where the arrow heads
        ends.append(((message.begin * factor, source + side), (message.end * factor, dest - side)))
    pixels, left = _pixels(ax), ax.transAxes.transform((0, 0))[0]
    for message, (begin, end) in zip(trace.messages, ends, strict=True):
        arrow = {"arrowstyle": "-|>", "color": BLACK, "lw": 1.3, "shrinkA": 0, "shrinkB": 0}
        ax.annotate("", xy=end, xytext=begin, arrowprops=arrow, zorder=4, annotation_clip=False)
        if free is None or abs(begin[1] - end[1]) * pixels[1] <= 14:
            continue
        text = tags.get(message.tag, size(message.bytes))
        for share in _gaps(abs(lanes[message.source] - lanes[message.dest])):
            place = [b + share * (e - b) for b, e in zip(begin, end, strict=True)]
            x, y = ax.transData.transform(place)
            wide = 7 * len(text)
            if x - wide / 2 > left and free.take(x, y, wide + 8, 14):
                ax.text(
                    *place, text, fontsize=10, ha="center", va="center", zorder=5,
                    bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8, "alpha": 0.85},
                )  # fmt: skip
                break


def _gaps(lanes: int) -> list[float]:
    """Return where a message over so many lanes has room for a label, as shares of its way.

    That is between two lanes, where no box lies; the places nearest to the middle come first.
    """
    if lanes == 1:
        return [0.5, 0.3, 0.7]
    gaps = [(gap + (1 - HEIGHT) / 2) / (lanes - HEIGHT) for gap in range(lanes)]
    return sorted(gaps, key=lambda share: abs(share - 0.5))


class _Free:
    """Remembers where labels stand, so that they do not cover one another."""

    def __init__(self) -> None:
        self._taken: list[tuple[float, float, float, float]] = []

    def take(self, x: float, y: float, width: float, height: float) -> bool:
        if any(
            abs(x - a) < (width + w) / 2 and abs(y - b) < (height + h) / 2
            for a, b, w, h in self._taken
        ):
            return False
        self._taken.append((x, y, width, height))
        return True


def _pixels(ax: Axes) -> tuple[float, float]:
    """How many pixels a unit of each axis is."""
    (x0, y0), (x1, y1) = ax.transData.transform([(0, 0), (1, 1)])
    return abs(x1 - x0), abs(y1 - y0)


def _names(trace: Trace, ax: Axes, lanes: dict, factor: float, free: _Free) -> None:
    pixels = _pixels(ax)[0] * factor
    for event in trace.events:
        if event.duration * pixels > 9 * len(event.call) + 8:
            middle = (event.begin + event.end) / 2 * factor, lanes[event.rank]
            free.take(*ax.transData.transform(middle), 9 * len(event.call), 16)
            hatched = event.waiting > 0.3 * event.duration  # under the text
            ax.text(
                *middle, event.call,
                fontsize=11, ha="center", va="center", zorder=5, clip_on=True,
                color=BLACK if hatched else ink(COLOURS[event.kind]),
                bbox={"facecolor": "white", "edgecolor": "none", "pad": 1} if hatched else None,
            )  # fmt: skip


def _legend(trace: Trace, ax: Axes) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    kinds = [kind for kind in COLOURS if any(e.kind == kind for e in trace.events)]
    handles = [Patch(facecolor=COLOURS[kind], label=NAMES[kind]) for kind in kinds]
    if any(event.waiting for event in trace.events):
        waiting = {"facecolor": "white", "edgecolor": BLACK, "hatch": "////"}
        handles.append(Patch(label="waiting for the other side", **waiting))
    if any(event.done is not None for event in trace.events):
        handles.append(Line2D([], [], color=GREY, linewidth=3, label="under way"))
    ax.legend(
        handles=handles, loc="lower left", bbox_to_anchor=(0, 1.0), ncols=6, fontsize=11,
        borderaxespad=0.2, handlelength=1.4, columnspacing=1.2,
    )  # fmt: skip
