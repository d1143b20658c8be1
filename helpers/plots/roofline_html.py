"""The interactive roofline: an SVG that reads without a script, and a form to add a kernel."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from helpers.plots.labels import beside, together
from helpers.plots.roofline_words import (
    flops,
    legend,
    named,
    own_roof,
    share_of,
    threads_of,
    tip_of,
    told,
)
from helpers.plots.style import BLUE, GREY, VERMILION
from helpers.plots.web.page import embed
from helpers.roofline import ABOVE

if TYPE_CHECKING:
    from IPython.display import HTML

    from helpers.roofline import Point


def interactive(
    peaks: Mapping[str, float], bandwidths: Mapping[str, float], points: Sequence[Point] = ()
) -> HTML:
    """Return the roofline: point at a kernel for its figures, add your own.

    ``peaks`` are in flop/s, ``bandwidths`` in bytes/s; the SVG reads without its script. A kernel
    above its roof stands in a frame, and words below the picture call it a fault of measuring.
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
            "threads": f"{p.threads} thread{'s' * (p.threads > 1)}",
            "twice": p.twice,
        }
        for p in points
    ]
    return _page(peaks, bandwidths, data, *_range(peaks, bandwidths, points))


def _range(
    peaks: Mapping[str, float], bandwidths: Mapping[str, float], points: Sequence[Point]
) -> tuple[float, float]:
    """Return intensities, flop/byte, each 1, 2 or 5 times a power of ten, around all that counts.

    That is the kernels, and the ridge point of each peak with each bandwidth.
    """
    marks = [peak / rate for peak in peaks.values() for rate in bandwidths.values()]
    marks += [p.intensity for p in points]
    low, high = min(marks) / 4, 3 * max(marks)
    steps = [k * 10.0**e for e in range(-9, 12) for k in (1, 2, 5)]
    return max(s for s in steps if s <= low), min(s for s in steps if s >= high)


def _spread(places: Sequence[float], gap: float) -> list[float]:
    """Return the places, each moved up until it is ``gap`` away from the one before."""
    moved = [0.0] * len(places)
    last = -math.inf
    for i in sorted(range(len(places)), key=places.__getitem__):
        last = moved[i] = max(places[i], last + gap)
    return moved


WIDTH, PLOT, LEFT, BOTTOM, RIGHT = 900, 400, 64, 54, 150  # right of the plot: the peaks' names
FONT, LETTER = 16, 9.1  # of a name: height and width a letter
INK = ("#222222", "#555555", "#767676")  # of the bandwidths: the colour belongs to the kernels
DASHES = ("", "9 4", "3 3", "12 3 3 3")


class _Frame:
    """Where a value stands in the picture: both axes are logarithmic."""

    def __init__(self, peaks, bandwidths, data, low: float, high: float):
        self.low, self.high, self.top = low, high, max(peaks.values())
        self.floor = min([min(bandwidths.values()) * low, *(d["p"] for d in data)]) / 2
        self.y0, self.y1 = math.log10(self.floor), math.log10(self.top)
        self.x0, self.x1 = math.log10(low), math.log10(high)
        self.across = (WIDTH - LEFT - RIGHT) / (self.x1 - self.x0)  # of a decade
        self.up = PLOT / (self.y1 - self.y0)
        self.steep = math.atan2(self.up, self.across)  # of a roof's line
        longest = max(len(named(*one)) for one in bandwidths.items())
        self.above = 16 + LETTER * longest * math.sin(self.steep)  # the roofs' names
        self.height = self.above + PLOT + BOTTOM
        self.lines: list[tuple] = []  # that are drawn: names keep off them

    def x(self, value: float) -> float:
        return LEFT + (math.log10(value) - self.x0) * self.across

    def y(self, value: float) -> float:
        return self.above + (self.y1 - math.log10(value)) * self.up


def _page(peaks, bandwidths, data, low: float, high: float) -> HTML:
    at = _Frame(peaks, bandwidths, data, low, high)
    dashed = {threads_of(name): "" if rate == at.top else "9 4" for name, rate in peaks.items()}
    like = {
        name: dashed.get(threads_of(name)) for name in bandwidths
    }  # the peak of as many threads
    parts = [*_axes(at), *_peaks(at, peaks, dashed), *_roofs(at, peaks, bandwidths, like, data)]
    parts += _kernels(at, data)
    scale = {key: getattr(at, key) for key in ("x0", "x1", "y0", "y1", "top")} | {
        "memory": bandwidths.get("memory", min(bandwidths.values())),
        "box": [WIDTH, at.height, LEFT, BOTTOM, RIGHT, at.above],
    }
    still = (
        f'<svg viewBox="0 0 {WIDTH} {at.height:.0f}" role="group" '
        f'aria-label="{html.escape(told(peaks, bandwidths, data))}" '
        f'font-family="sans-serif" font-size="{FONT}">{"".join(parts)}</svg>'
    )
    return embed("roofline", scale, still=still + legend(at.top, peaks, data, like))


def _axes(at: _Frame) -> list[str]:
    parts = []
    for tick in _ticks(at.low, at.high):
        parts.append(_line(at.x(tick), at.above, at.x(tick), at.above + PLOT, "#ddd", 1))
        parts.append(_text(at.x(tick), at.above + PLOT + 20, f"{tick:g}", "middle"))
    unit, words = (1e12, "Tflop/s") if at.floor >= 1e12 else (1e9, "Gflop/s")
    for tick in _ticks(at.floor, at.top):
        parts.append(_line(LEFT, at.y(tick), WIDTH - RIGHT, at.y(tick), "#ddd", 1))
        parts.append(_text(LEFT - 6, at.y(tick) + 5, f"{tick / unit:g}", "end"))
    across, up = (LEFT + WIDTH - RIGHT) / 2, at.above + PLOT / 2
    parts.append(_text(across, at.height - 10, "arithmetic intensity, flop/byte", "middle"))
    parts.append(_text(16, up, words, "middle", extra=f'transform="rotate(-90 16 {up})"'))
    return parts


def _peaks(at: _Frame, peaks, dashed) -> list[str]:
    """The level lines with their names."""
    parts = []
    said = [_two_lines(name, flops(rate)) for name, rate in peaks.items()]
    heights = _spread([-at.y(rate) for rate in peaks.values()], 18 * max(map(len, said)) + 4)
    for (name, rate), text, middle in zip(peaks.items(), said, heights, strict=True):
        at.lines.append((LEFT, at.y(rate), WIDTH - RIGHT, at.y(rate)))
        parts.append(_line(*at.lines[-1], GREY, 2, dashed[threads_of(name)]))
        for k, line in enumerate(text):
            down = 5 + 18 * (k - (len(text) - 1) / 2)
            parts.append(_text(WIDTH - RIGHT + 8, down - middle, line, "start", "#222"))
    return parts


def _roofs(at: _Frame, peaks, bandwidths, like, data) -> list[str]:
    """The rising lines, each up to its ridge, with their names."""
    parts = []
    own = {name: _own_peak(at, peaks, name) for name in bandwidths}
    high = [name for name in bandwidths if own[name] == at.top]  # their names stand on the line
    starts = [at.x(at.top / bandwidths[name]) for name in high]
    starts = dict(zip(high, _spread(starts, 19 / math.sin(at.steep)), strict=True))
    others = itertools.cycle(DASHES[2:] if any(d is not None for d in like.values()) else DASHES)
    for k, (name, rate) in enumerate(bandwidths.items()):
        peak = own[name]
        begin, ridge, ink = max(at.low, at.floor / rate), at.x(peak / rate), INK[k % 3]
        at.lines.append((at.x(begin), at.y(rate * begin), ridge, at.y(peak)))
        parts.append(
            _line(*at.lines[-1], ink, 2.5, next(others) if like[name] is None else like[name])
        )
        tip = f"{name}: {rate / 1e9:.1f} GB/s, ridge at {peak / rate:.3g} flop/byte"
        parts.append(_dot(ridge, at.y(peak), 4, ink, tip))
        # The name goes on where its line ends: above the highest peak there are no kernels.
        place, anchor = (starts.get(name, 0) + 8, at.y(at.top) - 7), "start"
        if peak < at.top:
            place, anchor = _under(at, LETTER * len(named(name, rate)), data), "end"
        turned = f'transform="rotate({-math.degrees(at.steep):.1f} {place[0]:.1f} {place[1]:.1f})"'
        parts.append(_text(*place, named(name, rate), anchor, ink, extra=turned))
    return parts


def _own_peak(at: _Frame, peaks: Mapping[str, float], name: str) -> float:
    """Return the peak at which a roof ends: that of as many threads, else the highest."""
    own = [rate for known, rate in peaks.items() if threads_of(known) == threads_of(name)]
    return max(own, default=at.top)


def _under(at: _Frame, width: float, data) -> tuple[float, float]:
    """Return where a name ends that stands under the last line, by its ridge and off kernels."""
    left, low, right, high = at.lines[-1]
    way = math.cos(at.steep), -math.sin(at.steep)  # up along the line
    circles = [(at.x(d["i"]), at.y(d["p"])) for d in data]
    ends = [
        (right - back * way[0] - 19 * way[1], high - back * way[1] + 19 * way[0])
        for back in range(8, max(9, int(math.hypot(right - left, low - high) - width)), 6)
    ]

    def free(end: tuple[float, float]) -> bool:
        off = [(x - end[0], y - end[1]) for x, y in circles]
        return not any(
            -width - 12 < dx * way[0] + dy * way[1] < 12 and -24 < dy * way[0] - dx * way[1] < 16
            for dx, dy in off
        )

    x, y = next(filter(free, ends), ends[0])
    middle = x + 5 * way[1], y - 5 * way[0]  # between the letters' feet and heads
    start = middle[0] - width * way[0], middle[1] - width * way[1]
    at.lines.append((*start, *middle))  # the kernels' names keep off it
    return x, y


def _kernels(at: _Frame, data) -> list[str]:
    """The circles over their names, which no line crosses where there is room."""
    parts, over = [], []
    places = [(at.x(d["i"]), at.y(d["p"])) for d in data]
    names = together(places, [d["name"] for d in data])
    found = beside(
        [place for place, _ in names],
        [LETTER * len(name) for _, name in names],
        FONT + 3,
        at.lines,
        (LEFT, at.above, WIDTH - RIGHT, at.above + PLOT),
        crosses=130,  # a line leads to a name that goes far
    )
    for ((cx, cy), name), (left, middle) in zip(names, found, strict=True):
        end = min(max(cx, left - 2), left + LETTER * len(name))
        past = any(  # a circle that this one overlaps, on the name's side
            math.hypot(u - cx, v - cy) < 14 and (v - cy) * (middle - cy) > 0 for (u, v), _ in names
        )
        if past or math.hypot(end - cx, middle - cy) > 20:  # a line leads to a name that moved
            into = left < end < left + LETTER * len(name)  # from above or below
            stop = middle + into * math.copysign(FONT / 2 + 2, cy - middle)
            looks = (("#fff", 3), ("#222", 1.2)) if past else (("#777", 1),)
            to = over if past else parts  # over the circles: it shows from which one it comes
            to += [_line(cx, cy, end, stop, *look) for look in looks]
        # Letters take less than LETTER: a name at the left ends beside its circle.
        ends = left + LETTER * len(name) - 3
        place = (ends, "end") if ends < cx else (left, "start")
        parts.append(_text(place[0], middle + 5, name, place[1], "#222"))
    for d, place in zip(data, places, strict=True):
        hollow = d["top"] < at.top  # held against a dashed roof
        fill, ring, wide = ("#fff", BLUE, 2) if hollow else (BLUE, "#fff", 1.5)
        parts.append(_dot(*place, 7, fill, tip_of(d), f' stroke="{ring}" stroke-width="{wide}"'))
        if share_of(d) > ABOVE:
            parts.append(_square(*place, 10))
    return parts + over


def _two_lines(name: str, rate: str) -> list[str]:
    """What is written beside a peak: in one line if it is short."""
    one = f"{name}: {rate}"
    return [one] if FONT / 2 * len(one) < RIGHT - 8 else [name, rate]


def _line(x1, y1, x2, y2, stroke, width, dash="") -> str:
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}" '
        f'stroke-width="{width}"{dashes}/>'
    )


def _text(x, y, text, anchor, fill="#444", extra="") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}" '
        f"{extra}>{html.escape(text)}</text>"
    )


def _dot(x, y, r, fill, tip, extra="") -> str:
    return (
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{r}" fill="{fill}"{extra}>'
        f"<title>{html.escape(tip)}</title></circle>"
    )


def _square(x, y, half) -> str:
    """A square around a circle: no circle, which the script would tell about."""
    return (
        f'<rect x="{x - half:.1f}" y="{y - half:.1f}" width="{2 * half}" height="{2 * half}" '
        f'fill="none" stroke="{VERMILION}" stroke-width="2" pointer-events="none"/>'
    )


def _ticks(low: float, high: float) -> list[float]:
    """Return the powers of ten between the two, and where they are few, two and five times them."""
    powers = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 1)
    ticks = [tick for e in powers if low <= (tick := 10.0**e) <= high]
    if len(ticks) > 2:
        return ticks
    return [tick for e in powers for k in (1, 2, 5) if low <= (tick := k * 10.0**e) <= high]
