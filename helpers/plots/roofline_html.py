"""The interactive roofline: an SVG that reads without a script, and a form to add a kernel."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from helpers.plots.style import GREY, colour
from helpers.plots.web.page import embed

if TYPE_CHECKING:
    from IPython.display import HTML

    from helpers.roofline import Point


def interactive(
    peaks: Mapping[str, float], bandwidths: Mapping[str, float], points: Sequence[Point] = ()
) -> HTML:
    """Return the roofline: point at a kernel for its figures, add your own.

    ``peaks`` are in flop/s, ``bandwidths`` in bytes/s; the SVG reads without its script.
    """
    data = [
        {
            "name": p.name,
            "i": p.intensity,
            "p": p.performance,
            "b": p.bytes,
            "s": p.seconds,
            "top": own_roof(peaks, p.threads),
            "memory": own_roof(bandwidths, p.threads),
        }
        for p in points
    ]
    return _page(peaks, bandwidths, data, *axis_range(peaks, bandwidths, points))


def axis_range(
    peaks: Mapping[str, float], bandwidths: Mapping[str, float], points: Sequence[Point]
) -> tuple[float, float]:
    """Return the whole decades of intensity, flop/byte, around the ridge points and the kernels."""
    top = max(peaks.values())
    marks = [top / rate for rate in bandwidths.values()] + [p.intensity for p in points]
    return 10 ** math.floor(math.log10(min(marks) / 2)), 10 ** math.ceil(math.log10(max(marks) * 2))


def apart(
    places: Sequence[tuple[float, float]],
    names: Sequence[str],
    height: float = 12,
    width: float = 6.5,
) -> list[float]:
    """Return how far down each label goes so that none covers another, nor another's point.

    Labels stand right of their places, y downwards; all lengths are in one unit, pixels or points.
    """
    moved, taken = [0.0] * len(places), []
    for i in sorted(range(len(places)), key=lambda i: places[i][1]):
        (x, y), length = places[i], width * len(names[i])
        beside = [(u, v) for u, v in places if height < u - x < length + height]
        while blockers := [
            v
            for u, v, other in taken
            if u < x + length and x < u + other and abs(v - y) < 0.99 * height
        ] + [v for _, v in beside if abs(v - y) < 0.8 * height]:
            y = max(blockers) + height
        taken.append((x, y, length))
        moved[i] = y - places[i][1]
    return moved


NEAR = 2.5  # times: a name above a line would stand on one that is no further up


def _below(index: int, rates: Sequence[float]) -> bool:
    """Tell whether a line's name goes below it: another lies just above, or upon it and first."""
    mine = rates[index]
    return any(
        mine < other < NEAR * mine or (other == mine and k < index) for k, other in enumerate(rates)
    )


def _spread(places: Sequence[float], gap: float) -> list[float]:
    """Return the places, each moved right until it is ``gap`` away from its left neighbour."""
    moved = [0.0] * len(places)
    last = -math.inf
    for i in sorted(range(len(places)), key=places.__getitem__):
        last = moved[i] = max(places[i], last + gap)
    return moved


WIDTH, HEIGHT, LEFT, BOTTOM, RIGHT, TOP = 880, 470, 70, 50, 20, 110  # above TOP: the roofs' names
INK = ("#222222", "#555555", "#767676")  # of the bandwidths: colours belong to the kernels
DASHES = ("", "9 4", "3 3", "12 3 3 3")


def _page(peaks, bandwidths, data, low: float, high: float) -> HTML:
    top = max(peaks.values())
    floor = min([min(bandwidths.values()) * low, *(d["p"] for d in data)]) / 2
    bottom, ceiling = math.log10(floor), math.log10(top)
    x0, x1 = math.log10(low), math.log10(high)

    def x(value):
        return LEFT + (math.log10(value) - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT)

    def y(value):
        share = (math.log10(value) - bottom) / (ceiling - bottom)
        return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)

    parts = []
    for e in range(round(x0), round(x1) + 1):
        parts.append(_line(x(10**e), TOP, x(10**e), HEIGHT - BOTTOM, "#ddd", 1))
        parts.append(_text(x(10**e), HEIGHT - BOTTOM + 18, _number(10.0**e), "middle"))
    unit, words = (1e12, "Tflop/s") if floor >= 1e12 else (1e9, "Gflop/s")
    for tick in _ticks(floor, top):
        parts.append(_line(LEFT, y(tick), WIDTH - RIGHT, y(tick), "#ddd", 1))
        parts.append(_text(LEFT - 6, y(tick) + 4, _number(tick / unit), "end"))
    named = []  # where a roof's name stands: its left end and its height
    dash_of = {}  # "1 thread" → how its lines are dashed
    for k, (name, rate) in enumerate(peaks.items()):
        dash = dash_of[name.rpartition(", ")[2]] = "" if rate == top else "9 4"
        parts.append(_line(LEFT, y(rate), WIDTH - RIGHT, y(rate), GREY, 2, dash))
        label = f"{name}: {_flops(rate)}"
        down = 15 if _below(k, list(peaks.values())) else -5
        parts.append(_text(WIDTH - RIGHT - 4, y(rate) + down, label, "end"))
        named.append((WIDTH - RIGHT - 4 - 7.6 * len(label), y(rate) + down))
    steep = math.degrees(math.atan((y(1) - y(10)) / (x(10) - x(1))))  # of a roof's line
    beside = _spread(
        [x(top / rate) for rate in bandwidths.values()], 17 / math.sin(math.radians(steep))
    )
    like = {name: dash_of.get(name.rpartition(", ")[2]) for name in bandwidths}
    others = itertools.cycle(DASHES[2:] if any(d is not None for d in like.values()) else DASHES)
    for k, (name, rate) in enumerate(bandwidths.items()):
        start, ridge, ink = max(low, floor / rate), x(top / rate), INK[k % 3]
        same = like[name]
        dash = next(others) if same is None else same
        parts.append(_line(x(start), y(rate * start), ridge, y(top), ink, 2.5, dash))
        tip = f"{name}: {rate / 1e9:.1f} GB/s, ridge at {top / rate:.3g} flop/byte"
        parts.append(_dot(ridge, y(top), 4, ink, tip))
        # The name goes on where its line ends: above the highest peak there are no kernels.
        at = beside[k] + 8, y(top) - 6
        turned = f'transform="rotate({-steep:.1f} {at[0]:.1f} {at[1]:.1f})"'
        parts.append(_text(*at, f"{name} {rate / 1e9:.0f} GB/s", "start", ink, extra=turned))
    places = [(x(d["i"]), y(d["p"])) for d in data]
    down = apart(places, [d["name"] for d in data], height=15, width=7.6)
    for index, (d, (cx, cy), moved) in enumerate(zip(data, places, down, strict=True)):
        parts.append(_mark(cx, cy, index, tip_of(d)))
        if moved > 12:  # a line leads to a name that had to move
            parts.append(_line(cx + 5, cy + 5, cx + 10, cy + moved, "#777", 1))
        end = cx + 12 + 7.6 * len(d["name"])
        upon = any(end > left and abs(cy + 4 + moved - height) < 17 for left, height in named)
        at, anchor = (cx - 12, "end") if upon else (cx + 12, "start")
        parts.append(_text(at, cy + 4 + moved, d["name"], anchor, "#222"))
    parts.append(_text(WIDTH / 2, HEIGHT - 10, "arithmetic intensity, flop/byte", "middle"))
    turned = f'transform="rotate(-90 16 {HEIGHT / 2})"'
    parts.append(_text(16, HEIGHT / 2, words, "middle", extra=turned))
    scale = {
        "x0": x0,
        "x1": x1,
        "y0": bottom,
        "y1": ceiling,
        "top": top,
        "memory": _memory(bandwidths),
        "box": [WIDTH, HEIGHT, LEFT, BOTTOM, RIGHT, TOP],
    }
    still = (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="group" '
        f'aria-label="{html.escape(_told(peaks, bandwidths, data))}" '
        f'font-family="sans-serif" font-size="13">{"".join(parts)}</svg>'
    )
    return embed("roofline", scale, still=still)


def _told(peaks: Mapping[str, float], bandwidths: Mapping[str, float], data) -> str:
    """The picture in words, for those who do not see it: its ceilings, and where each kernel is."""
    ceilings = [f"{name} {_flops(rate)}" for name, rate in peaks.items()]
    ceilings += [f"{name} {rate / 1e9:.0f} GB/s" for name, rate in bandwidths.items()]
    kernels = [f"{d['name']} {d['p'] / 1e9:.3g} Gflop/s at {d['i']:.3g} flop/byte" for d in data]
    return f"roofline. Ceilings: {', '.join(ceilings)}. Kernels: {', '.join(kernels) or 'none'}"


def own_roof(ceilings: Mapping[str, float], threads: int) -> float:
    """Return the ceiling that a kernel of so many threads is held against.

    It is the one whose name ends in ``", 2 threads"`` for as many, else that of ``"memory"``, or
    the highest peak.
    """
    words = f", {threads} thread" + "s" * (threads > 1)
    own = [rate for name, rate in ceilings.items() if name.endswith(words)]
    memory = [rate for name, rate in ceilings.items() if name.startswith("memory")]
    return min(own) if own else max(memory or ceilings.values())


def tip_of(d: Mapping) -> str:
    """Return what shows under the pointer: intensity, performance, share of its own roof."""
    share = d["p"] / min(d["top"], d["memory"] * d["i"])
    above = ", above it: a cache served the data, or the roof was measured too low"
    return (
        f"{d['name']}: {d['i']:.3g} flop/byte, {d['p'] / 1e9:.3g} Gflop/s, "
        f"{d['b'] / d['s'] / 1e9:.3g} GB/s, {100 * share:.0f} % of its roof"
        f"{above if share > 1.05 else ''}"
    )


def _memory(bandwidths: Mapping[str, float]) -> float:
    """The rate of "memory", or the lowest where none has that name."""
    return bandwidths.get("memory", min(bandwidths.values()))


def _line(x1, y1, x2, y2, stroke, width, dash="") -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}" '
        f'stroke-width="{width}"{dashes}/>'
    )


def _text(x, y, text, anchor, fill="#444", size=13, extra="") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" font-size="{size}" '
        f"{extra}>{html.escape(text)}</text>"
    )


def _dot(x, y, r, fill, tip) -> str:
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}" fill="{fill}">'
        f"<title>{html.escape(tip)}</title></circle>"
    )


def _mark(x: float, y: float, index: int, tip: str) -> str:
    """A kernel: colour and width of its ring tell neighbours apart, its name stands beside it."""
    fill, ring = colour(index), ("#fff", "#111")[index // 6 % 2]
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="7" fill="{fill}" stroke="{ring}" stroke-width="1.5">'
        f"<title>{html.escape(tip)}</title></circle>"
    )


def _flops(rate: float) -> str:
    """Return a peak with its unit."""
    return f"{rate / 1e12:.0f} Tflop/s" if rate >= 1e13 else f"{rate / 1e9:.0f} Gflop/s"


def _ticks(low: float, high: float) -> list[float]:
    """Return the powers of ten between the two, and where they are few, two and five times them."""
    powers = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    ticks = [tick for e in powers if low <= (tick := 10.0**e) <= high]
    if len(ticks) > 2:
        return ticks
    return [tick for e in powers for k in (1, 2, 5) if low <= (tick := k * 10.0**e) <= high]


def _number(value: float) -> str:
    return f"{value:g}"
