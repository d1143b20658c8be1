"""Space-time diagrams of message passing: time to the right, a lane for each rank.

The picture is Lamport's (1978, "Time, clocks, and the ordering of events in a distributed system"),
turned on its side, with a box for each call. Any object with the fields of
:class:`helpers.tracing.Trace` can be drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from helpers.plots import style
from helpers.plots.labels import Box, take

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from helpers.tracing.trace import Event, Message, Trace

COLOURS = {
    "send": style.BLUE,
    "receive": style.GREEN,
    "exchange": style.SKY,
    "collective": style.PURPLE,
    "wait": style.ORANGE,
    "probe": style.GREY,
}
NAMES = {kind: kind for kind in COLOURS}
NAMES |= {"exchange": "send and receive", "wait": "wait or test"}
TAGS = (style.VERMILION, style.BLUE, style.BLACK, style.GREEN)  # of arrows, by their tag
HEIGHT = 0.56  # of a lane
LEAST = 5  # pixels: a call of a microsecond is still a box
LEGEND = {  # between the title and the lanes
    "loc": "lower left",
    "bbox_to_anchor": (0, 1.0),
    "ncols": 6,
    "fontsize": 11.5,
    "borderaxespad": 0.2,
    "columnspacing": 1.2,
}


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


def timeline(trace: Trace, *, title: str = "") -> Axes:
    """Draw a recorded trace.

    A solid box is a call at work; the hatched part of a box is waiting: the other side had not come
    yet. A thin bar under the lane runs from a non-blocking call until it was found complete. Arrows
    run from where a send was called to where the receiver had the message.
    """
    ax, lanes, factor = _lanes(trace, title)
    _boxes(trace, ax, lanes, factor)
    taken: list[Box] = []  # by labels
    _names(trace, ax, lanes, factor, taken)
    sizes = {size(message.bytes) for message in trace.messages}
    alike = len(sizes) == 1 < len(trace.messages)  # then the legend says it once
    _arrows(trace, ax, lanes, factor, None if alike else taken)
    _legend(trace, ax, f"message of {sizes.pop()}" if alike else "")
    return ax


def messages(trace: Trace, tags: Mapping[int, str], *, title: str = "", share: float = 1.0) -> Axes:
    """Draw the messages of a trace, with an arrow's look for each tag, and when ranks compute.

    ``tags`` names each tag, what ranks compute first. A box runs from what a rank received to what
    it then sends; one of less than a pixel is left out. The first ``share`` of the time is drawn.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    ax, lanes, factor = _lanes(trace, title)
    ax.grid(False)
    until = share * trace.duration
    ax.set_xlim(-0.01 * until * factor, 1.01 * until * factor)
    thinnest = LEAST / _pixels(ax)[0] / factor
    look = {"facecolor": "#c4c4c4", "edgecolor": style.GREY, "zorder": 2}
    for rank, lane in lanes.items():
        sent = [
            (message.begin, message.tag) for message in trace.messages if message.source == rank
        ]
        since = 0.0 if sent and min(sent)[1] == next(iter(tags)) else None
        ends = [(message.end, None) for message in trace.messages if message.dest == rank]
        for moment, tag in sorted(sent + ends, key=lambda pair: pair[0]):
            if tag is not None and since is not None and moment - since > thinnest / 4:
                span = (since * factor, max(moment - since, thinnest) * factor)
                ax.broken_barh([span], (lane - 0.15, 0.3), **look)
            since = moment if tag is None else None
    looks = dict(zip(tags, zip(TAGS, ("-", "--", ":", "-."), strict=True), strict=False))
    drawn = [message for message in trace.messages if message.end <= until]
    for message in drawn:
        colour, dash = looks[message.tag]
        ends = _ends(message, lanes, factor, 0.3)
        style.arrow(ax, *ends, colour, "-|>", 2, zorder=4, linestyle=dash)
    handles: list = [
        Line2D([], [], color=colour, linestyle=dash, linewidth=2, marker="", label=tags[tag])
        for tag, (colour, dash) in looks.items()
        if any(message.tag == tag for message in drawn)
    ]
    handles.append(Patch(label="computes", **look))
    ax.legend(handles=handles, handlelength=2.4, **LEGEND)
    return ax


def turns(ran: Sequence[Sequence[tuple[float, float]]], alone: float) -> Axes:
    """Draw when each rank had a core, stretches [begin, end] in s, and the time of one alone."""
    ax = style.ensure_axes(figsize=(9, 3.2))
    start = min(stretches[0][0] for stretches in ran)
    for lane, stretches in enumerate(ran):
        first, last = stretches[0][0], stretches[-1][1]
        ax.broken_barh([(first - start, last - first)], (lane - 0.06, 0.12), color=style.GREY)
        bars = [(begin - start, end - begin) for begin, end in stretches]
        ax.broken_barh(bars, (lane - 0.35, 0.7), color=style.colour(lane))
    ax.axvline(alone, color=style.BLACK, linestyle="--", linewidth=1.5)
    ax.annotate(
        "one process alone", (alone, 1.0), xycoords=("data", "axes fraction"),
        xytext=(0, 4), textcoords="offset points", ha="center",
    )  # fmt: skip
    ax.set(xlabel="time [s]", ylabel="rank", yticks=range(len(ran)), xlim=(0, None))
    ax.invert_yaxis()
    return ax


def _lanes(trace: Trace, title: str) -> tuple[Axes, dict, float]:
    """Return axes with a lane for each rank, the lanes, and how many units a second has."""
    check(trace)
    lanes = {rank: lane for lane, rank in enumerate(trace.ranks)}
    ax = style.ensure_axes(figsize=(11, 1.7 + 0.85 * len(lanes)))
    factor, unit = unit_of(trace.duration)
    ax.set_xlim(-0.01 * trace.duration * factor, 1.01 * trace.duration * factor)
    ax.set_ylim(len(lanes) - 0.4, -0.6)
    ax.set_yticks(range(len(lanes)), [f"rank {rank}" for rank in lanes])
    ax.set_xlabel(f"time since the first call [{unit}]")
    ax.grid(False, axis="y")
    for lane in lanes.values():
        ax.axhline(lane, color="#DDDDDD", linewidth=1, zorder=0)
    if title:
        ax.set_title(title, pad=28)  # points: the legend stands in between
    return ax, lanes, factor


def check(trace: Trace) -> None:
    """Refuse a trace in which there is nothing to draw."""
    if not trace.events:
        raise ValueError("timeline expects a trace with at least one event; this one has none")


def _boxes(trace: Trace, ax: Axes, lanes: dict, factor: float) -> None:
    from matplotlib.colors import to_rgb

    least = LEAST / _pixels(ax)[0]
    for kind, colour in COLOURS.items():
        edge = tuple(0.6 * part for part in to_rgb(colour))  # darker: tells neighbours apart
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
            look = {"edgecolor": edge, "linewidth": 1.2, "zorder": 2}
            ax.broken_barh(busy, (top, HEIGHT), facecolor=colour, **look)
            ax.broken_barh(idle, (top, HEIGHT), facecolor="white", hatch="////", **look)
            ax.broken_barh(flight, (lane + HEIGHT / 2 + under, 0.07), facecolor=colour, linewidth=0)


def _ends(message: Message, lanes: dict, factor: float, height: float) -> tuple:
    """Where an arrow leaves one lane's box, and meets the other's."""
    source, dest = lanes[message.source], lanes[message.dest]
    side = height / 2 if dest > source else -height / 2  # leave the box where the arrow heads
    return (message.begin * factor, source + side), (message.end * factor, dest - side)


def _arrows(trace: Trace, ax: Axes, lanes: dict, factor: float, taken: list[Box] | None) -> None:
    pixels, left = _pixels(ax), ax.transAxes.transform((0, 0))[0]
    for message in trace.messages:
        begin, end = _ends(message, lanes, factor, HEIGHT)
        style.arrow(ax, begin, end, style.BLACK, "-|>", 1.3, zorder=4)
        if taken is None or abs(begin[1] - end[1]) * pixels[1] <= 14:
            continue
        text = size(message.bytes)
        for share in _gaps(abs(lanes[message.source] - lanes[message.dest])):
            place = [b + share * (e - b) for b, e in zip(begin, end, strict=True)]
            x, y = ax.transData.transform(place)
            wide = 8 * len(text)
            if x - wide / 2 > left and take(taken, x, y, wide + 8, 16):
                ax.text(
                    *place, text, fontsize=11.5, ha="center", va="center", zorder=5,
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


def _pixels(ax: Axes) -> tuple[float, float]:
    """How many pixels a unit of each axis is."""
    (x0, y0), (x1, y1) = ax.transData.transform([(0, 0), (1, 1)])
    return abs(x1 - x0), abs(y1 - y0)


def _names(trace: Trace, ax: Axes, lanes: dict, factor: float, taken: list[Box]) -> None:
    """Write each call's name into its box, or beside it where it is too narrow."""
    pixels = _pixels(ax)[0] * factor
    for rank in trace.ranks:
        calls = _together(trace.of(rank), 2 * LEAST / pixels)
        ends = [-0.01 * trace.duration, *(group[-1].end for group in calls)]
        begins = [*(group[0].begin for group in calls), 1.01 * trace.duration]
        for group, before, after in zip(calls, ends, begins[1:], strict=False):
            name = ", ".join(dict.fromkeys(event.call for event in group))
            begin, stop, event = group[0].begin, group[-1].end, group[0]
            wide = 9 * len(name)
            x, side = (begin + stop) / 2, "center"
            hatched = event.waiting > 0 and x - wide / 2 / pixels < event.begin + event.waiting
            ground = "white" if hatched else COLOURS[event.kind]  # hides arrows behind the name
            shade = style.ink(ground)
            if (stop - begin) * pixels <= wide + 8:
                ground, shade = "white", style.BLACK
                end = max(stop, group[-1].begin + LEAST / pixels)
                if (after - end) * pixels > wide + 12:
                    x, side = end + 4 / pixels, "left"
                elif (begin - before) * pixels > wide + 12:
                    x, side = begin - 4 / pixels, "right"
                else:
                    continue
            shift = {"left": 0.5, "center": 0.0, "right": -0.5}[side] * wide
            place = x * factor, lanes[rank]
            at = ax.transData.transform(place)
            if not take(taken, at[0] + shift, at[1], wide, 16):
                continue
            ax.text(
                *place, name,
                fontsize=12, ha=side, va="center", zorder=5, clip_on=True, color=shade,
                bbox={"facecolor": ground, "edgecolor": "none", "pad": 1},
            )  # fmt: skip


def _together(calls: Sequence[Event], closest: float) -> list[list[Event]]:
    """Group a rank's calls that lie within so many seconds: one box hides the next."""
    groups: list[list[Event]] = []
    for event in calls:
        if groups and event.end - groups[-1][0].begin < closest:
            groups[-1].append(event)
        else:
            groups.append([event])
    return groups


def _legend(trace: Trace, ax: Axes, arrow: str) -> None:
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    kinds = [kind for kind in COLOURS if any(e.kind == kind for e in trace.events)]
    handles: list = [Patch(facecolor=COLOURS[kind]) for kind in kinds]
    names = [NAMES[kind] for kind in kinds]
    if any(event.waiting for event in trace.events):
        waiting = {"facecolor": "white", "edgecolor": style.BLACK, "hatch": "////"}
        handles.append(Patch(**waiting))
        names.append("waiting for the other side")
    flying = {event.kind for event in trace.events if event.done is not None}
    if flying:  # each in the colour of its call
        handles.append(tuple(Line2D([], [], color=COLOURS[k], lw=4) for k in kinds if k in flying))
        names.append("non-blocking, under way")
    if arrow:
        look = {"marker": ">", "markersize": 6, "markevery": (1, 1), "linewidth": 1.3}
        handles.append(Line2D([], [], color=style.BLACK, **look))
        names.append(arrow)
    ax.legend(
        handles, names, handler_map={tuple: HandlerTuple(ndivide=None, pad=0)},
        handlelength=1.4, **LEGEND,
    )  # fmt: skip
