"""The interactive roofline: an SVG that reads without a script, and a form to add a kernel."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from helpers.plots.labels import beside, together
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


WIDTH, PLOT, LEFT, BOTTOM, RIGHT = 900, 330, 64, 54, 150  # right of the plot: the peaks' names
FONT, LETTER = 15, 8.6  # of a name: height and width a letter
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
        longest = max(len(_named(*one)) for one in bandwidths.items())
        self.above = 16 + LETTER * longest * math.sin(self.steep)  # the roofs' names
        self.height = self.above + PLOT + BOTTOM
        self.lines: list[tuple] = []  # that are drawn: names keep off them

    def x(self, value: float) -> float:
        return LEFT + (math.log10(value) - self.x0) * self.across

    def y(self, value: float) -> float:
        return self.above + (self.y1 - math.log10(value)) * self.up


def _page(peaks, bandwidths, data, low: float, high: float) -> HTML:
    at = _Frame(peaks, bandwidths, data, low, high)
    dashed = {_threads(name): "" if rate == at.top else "9 4" for name, rate in peaks.items()}
    like = {name: dashed.get(_threads(name)) for name in bandwidths}  # the peak of as many threads
    parts = [*_axes(at), *_peaks(at, peaks, dashed), *_roofs(at, peaks, bandwidths, like)]
    parts += _kernels(at, data)
    scale = {key: getattr(at, key) for key in ("x0", "x1", "y0", "y1", "top")} | {
        "memory": bandwidths.get("memory", min(bandwidths.values())),
        "box": [WIDTH, at.height, LEFT, BOTTOM, RIGHT, at.above],
    }
    still = (
        f'<svg viewBox="0 0 {WIDTH} {at.height:.0f}" role="group" '
        f'aria-label="{html.escape(_told(peaks, bandwidths, data))}" '
        f'font-family="sans-serif" font-size="{FONT}">{"".join(parts)}</svg>'
    )
    return embed("roofline", scale, still=still + _legend(at, peaks, data, like))


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
    said = [_two_lines(name, _flops(rate)) for name, rate in peaks.items()]
    heights = _spread([-at.y(rate) for rate in peaks.values()], 18 * max(map(len, said)) + 4)
    for (name, rate), text, middle in zip(peaks.items(), said, heights, strict=True):
        at.lines.append((LEFT, at.y(rate), WIDTH - RIGHT, at.y(rate)))
        parts.append(_line(*at.lines[-1], GREY, 2, dashed[_threads(name)]))
        for k, line in enumerate(text):
            down = 5 + 18 * (k - (len(text) - 1) / 2)
            parts.append(_text(WIDTH - RIGHT + 8, down - middle, line, "start", "#222"))
    return parts


def _roofs(at: _Frame, peaks, bandwidths, like) -> list[str]:
    """The rising lines, each up to its ridge, with their names."""
    parts = []
    starts = [at.x(at.top / rate) for rate in bandwidths.values()]
    starts = _spread(starts, 19 / math.sin(at.steep))  # of the names
    others = itertools.cycle(DASHES[2:] if any(d is not None for d in like.values()) else DASHES)
    for k, (name, rate) in enumerate(bandwidths.items()):
        own = [one for known, one in peaks.items() if _threads(known) == _threads(name)]
        peak = max(own, default=at.top)
        begin, ridge, ink = max(at.low, at.floor / rate), at.x(peak / rate), INK[k % 3]
        at.lines.append((at.x(begin), at.y(rate * begin), ridge, at.y(peak)))
        parts.append(
            _line(*at.lines[-1], ink, 2.5, next(others) if like[name] is None else like[name])
        )
        tip = f"{name}: {rate / 1e9:.1f} GB/s, ridge at {peak / rate:.3g} flop/byte"
        parts.append(_dot(ridge, at.y(peak), 4, ink, tip))
        # The name goes on where its line ends: above the highest peak there are no kernels.
        place = starts[k] + 8, at.y(at.top) - 7
        turned = f'transform="rotate({-math.degrees(at.steep):.1f} {place[0]:.1f} {place[1]:.1f})"'
        parts.append(_text(*place, _named(name, rate), "start", ink, extra=turned))
    return parts


def _kernels(at: _Frame, data) -> list[str]:
    """The circles over their names, which no line crosses where there is room."""
    parts = []
    places = [(at.x(d["i"]), at.y(d["p"])) for d in data]
    names = together(places, [d["name"] for d in data])
    found = beside(
        [place for place, _ in names],
        [LETTER * len(name) for _, name in names],
        FONT + 3,
        at.lines,
        (LEFT, at.above, WIDTH - RIGHT, at.above + PLOT),
    )
    for ((cx, cy), name), (left, middle) in zip(names, found, strict=True):
        end = min(max(cx, left - 2), left + LETTER * len(name))
        if math.hypot(end - cx, middle - cy) > 20:  # a line leads to a name that had to move
            into = left < end < left + LETTER * len(name)  # from above or below
            stop = middle + into * math.copysign(FONT / 2 + 2, cy - middle)
            parts.append(_line(cx, cy, end, stop, "#777", 1))
        # Letters take less than LETTER: a name at the left ends beside its circle.
        ends = left + LETTER * len(name) - 3
        place = (ends, "end") if ends < cx else (left, "start")
        parts.append(_text(place[0], middle + 5, name, place[1], "#222"))
    for d, place in zip(data, places, strict=True):
        hollow = d["top"] < at.top  # held against a dashed roof
        fill, ring, wide = ("#fff", BLUE, 2) if hollow else (BLUE, "#fff", 1.5)
        parts.append(_dot(*place, 7, fill, tip_of(d), f' stroke="{ring}" stroke-width="{wide}"'))
        if _share(d) > ABOVE:
            parts.append(_square(*place, 10))
    return parts


def _legend(at: _Frame, peaks, data, like) -> str:
    """What circles, lines and frames mean."""
    said = [*_by_threads(at, peaks, data, like), *_faults(data)]
    return f"<small>{' '.join(said)}</small>" if said else ""


def _faults(data) -> list[str]:
    """What is said of kernels above their roof."""
    above = [d for d in data if _share(d) > ABOVE]
    if not above:
        return []
    names = html.escape(", ".join(d["name"] for d in above))
    twice = ", also when both were measured again" if all(d["twice"] for d in above) else ""
    return [
        f"<b>In a frame: above its roof{twice} ({names}).</b> This is a fault of measuring, not a "
        "fast kernel: the roof came out too low, or a cache delivered bytes that we count as "
        "memory's."
    ]


def _by_threads(at: _Frame, peaks, data, like) -> list[str]:
    """What circles and lines mean, where they differ by threads."""
    hollow = [d["threads"] for d in data if d["top"] < at.top]
    full = _threads(next(name for name, rate in peaks.items() if rate == at.top))
    if not hollow:
        alone = data and all(d["threads"] == full for d in data)
        return [f"All circles: {full}{', as the solid lines' * (len(peaks) > 1)}."] * bool(alone)
    said = [f"Filled circle: {full}, as the solid lines."] if len(hollow) < len(data) else []
    said.append(f"Hollow circle: {', '.join(set(hollow))}, as the dashed lines.")
    if any(dash is None for dash in like.values()):
        said.append("Dotted and dash-dotted lines: caches.")
    return said


def _threads(name: str) -> str:
    """Return "2 threads" of a ceiling's name that ends in ", 2 threads", else the name."""
    return name.rpartition(", ")[2]


def _two_lines(name: str, rate: str) -> list[str]:
    """What is written beside a peak: in one line if it is short."""
    one = f"{name}: {rate}"
    return [one] if LETTER * len(one) < RIGHT else [name, rate]


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
    share = _share(d)
    above = ", above it: a cache served the data, or the roof was measured too low"
    return (
        f"{d['name']}: {d['i']:.3g} flop/byte, {d['p'] / 1e9:.3g} Gflop/s, "
        f"{d['b'] / d['s'] / 1e9:.3g} GB/s, {100 * share:.0f} % of its roof"
        f"{above if share > ABOVE else ''}"
    )


def _share(d: Mapping) -> float:
    """Return the part of its own roof that a kernel reached."""
    return d["p"] / min(d["top"], d["memory"] * d["i"])


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


def _named(name: str, rate: float) -> str:
    """Return what is written along a roof: its name, and its bandwidth with the unit."""
    return f"{name}: " + (f"{rate / 1e12:.1f} TB/s" if rate >= 1e12 else f"{rate / 1e9:.0f} GB/s")


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
