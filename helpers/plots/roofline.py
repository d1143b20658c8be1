"""The roofline plot, still and interactive; latency and bandwidth curves; a cache, step by step."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping, Sequence

import numpy as np

from .style import BLUE, GREEN, GREY, MARKERS, ORANGE, VERMILION, colour


def roofline(peaks: Mapping[str, float], bandwidths: Mapping[str, float], points=(), ax=None):
    """Draw ceilings, ridge points and kernels on log-log axes.

    ``peaks``: name → flop/s; ``bandwidths``: name → bytes/s; ``points``: objects with name,
    intensity (flop/byte) and performance (flop/s), as :class:`helpers.roofline.Point`.
    """
    ax = _axes(ax)
    top = max(peaks.values())
    low, high = _range(peaks, bandwidths, points)
    grid = np.geomspace(low, high, 200)
    for i, (name, rate) in enumerate(bandwidths.items()):
        ax.plot(grid, np.minimum(top, rate * grid) / 1e9, color=colour(i), marker="")
        ax.plot(top / rate, top / 1e9, "o", color=colour(i), markersize=8)
        at = max(low * 1.3, 1e-9)
        ax.annotate(
            f"{name} {rate / 1e9:.0f} GB/s",
            (at, rate * at / 1e9),
            xytext=(0, 5),
            textcoords="offset points",
            rotation=0,
            color=colour(i),
            size=11,
        )
    for name, rate in peaks.items():
        ax.axhline(rate / 1e9, color=GREY, linewidth=1.3, linestyle="-" if rate == top else "--")
        ax.annotate(
            f"{name} {rate / 1e9:.0f}",
            (high, rate / 1e9),
            xytext=(0, 3),
            textcoords="offset points",
            ha="right",
            size=11,
        )
    for i, point in enumerate(points):
        x, y = point.intensity, point.performance / 1e9
        ax.plot(x, y, MARKERS[i % len(MARKERS)], color=VERMILION, markersize=8)
        ax.annotate(point.name, (x, y), xytext=(7, -10), textcoords="offset points", size=10)
    ax.set(xscale="log", yscale="log", xlim=(low, high))
    ax.set(xlabel="arithmetic intensity, flop/byte", ylabel="Gflop/s", title="Roofline")
    lowest = min([min(bandwidths.values()) * low, *(p.performance for p in points)])
    ax.set_ylim(lowest / 2e9, top * 2 / 1e9)
    return ax


def interactive(peaks: Mapping[str, float], bandwidths: Mapping[str, float], points=()):
    """Return the roofline as an HTML object: point at a kernel for its figures, add your own.

    The picture reads without a script; the script adds the form and what shows under the pointer.
    """
    from IPython.display import HTML

    data = [
        {"name": p.name, "i": p.intensity, "p": p.performance, "b": p.bytes, "s": p.seconds}
        for p in points
    ]
    return HTML(_page(peaks, bandwidths, data, *_range(peaks, bandwidths, points)))


def _range(peaks, bandwidths, points) -> tuple[float, float]:
    """Whole decades around the ridge points and the kernels."""
    top = max(peaks.values())
    marks = [top / rate for rate in bandwidths.values()] + [p.intensity for p in points]
    return 10 ** math.floor(math.log10(min(marks) / 2)), 10 ** math.ceil(math.log10(max(marks) * 2))


WIDTH, HEIGHT, LEFT, BOTTOM, RIGHT, TOP = 880, 500, 70, 50, 20, 20


def _page(peaks, bandwidths, data, low: float, high: float) -> str:
    top = max(peaks.values())
    floor = min([min(bandwidths.values()) * low, *(d["p"] for d in data)]) / 2
    bottom, ceiling = math.log10(floor), math.log10(top * 2.5)
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
    for e in range(math.ceil(bottom), math.floor(ceiling) + 1):
        parts.append(_line(LEFT, y(10**e), WIDTH - RIGHT, y(10**e), "#ddd", 1))
        parts.append(_text(LEFT - 6, y(10**e) + 4, _number(10.0 ** (e - 9)), "end"))
    for name, rate in peaks.items():
        dash = "" if rate == top else "6 4"
        parts.append(_line(LEFT, y(rate), WIDTH - RIGHT, y(rate), GREY, 2, dash))
        label = f"{name}: {rate / 1e9:.0f} Gflop/s"
        parts.append(_text(WIDTH - RIGHT - 4, y(rate) - 5, label, "end"))
    for k, (name, rate) in enumerate(bandwidths.items()):
        start = max(low, floor / rate)
        parts.append(_line(x(start), y(rate * start), x(top / rate), y(top), colour(k), 2.5))
        tip = f"{name}: {rate / 1e9:.1f} GB/s, ridge at {top / rate:.2g} flop/byte"
        parts.append(_dot(x(top / rate), y(top), 5, colour(k), tip))
        label = f"{name} {rate / 1e9:.0f} GB/s"
        place = start * (high / low) ** 0.04
        parts.append(_text(x(place) + 6, y(rate * place) + 14, label, "start", colour(k)))
    for d in data:
        parts.append(_dot(x(d["i"]), y(d["p"]), 6, VERMILION, tip_of(d, top, bandwidths)))
        parts.append(_text(x(d["i"]) + 8, y(d["p"]) + 4, d["name"], "start", "#444", 11))
    parts.append(_text(WIDTH / 2, HEIGHT - 10, "arithmetic intensity, flop/byte", "middle"))
    turned = f'transform="rotate(-90 16 {HEIGHT / 2})"'
    parts.append(_text(16, HEIGHT / 2, "Gflop/s", "middle", extra=turned))
    scale = {
        "x0": x0,
        "x1": x1,
        "y0": bottom,
        "y1": ceiling,
        "top": top,
        "memory": _memory(bandwidths),
        "box": [WIDTH, HEIGHT, LEFT, BOTTOM, RIGHT, TOP],
    }
    identity = f"roofline-{abs(hash((low, high, top, len(data)))) % 10**8}"
    return (
        f'<div id="{identity}" style="max-width:{WIDTH}px"><svg viewBox="0 0 {WIDTH} {HEIGHT}" '
        'style="width:100%;background:#fff" font-family="sans-serif" font-size="13">'
        f"{''.join(parts)}</svg>{FORM}</div><script>((id, s) => {{{SCRIPT}}})"
        f"({json.dumps(identity)}, {json.dumps(scale)});</script>"
    )


def tip_of(d: Mapping, top: float, bandwidths: Mapping[str, float]) -> str:
    """What shows under the pointer: intensity, performance, share of the memory's roof."""
    roof = min(top, _memory(bandwidths) * d["i"])
    return (
        f"{d['name']}: {d['i']:.3g} flop/byte, {d['p'] / 1e9:.3g} Gflop/s, "
        f"{d['b'] / d['s'] / 1e9:.3g} GB/s, {100 * d['p'] / roof:.0f} % of the memory's roof"
    )


def _memory(bandwidths: Mapping[str, float]) -> float:
    """The rate of "memory", or the lowest where none has that name."""
    return bandwidths.get("memory", min(bandwidths.values()))


FORM = """<form style="font:13px sans-serif">Your kernel: <input name="n" value="mine" size="8">
<input name="f" placeholder="flop" size="8"> flop <input name="b" placeholder="bytes" size="8">
bytes <input name="t" placeholder="seconds" size="8"> s <button>add</button>
<output name="o"></output></form>"""

SCRIPT = """
const root = document.getElementById(id), svg = root.querySelector("svg");
const form = root.querySelector("form"), [W, H, L, B, R, T] = s.box;
form.addEventListener("submit", e => {
  e.preventDefault();
  const [f, b, t] = ["f", "b", "t"].map(k => Number(form.elements[k].value));
  const out = form.elements["o"];
  if (!(f > 0 && b > 0 && t > 0)) { out.value = "three numbers above 0, please"; return; }
  const i = f / b, p = f / t, roof = Math.min(s.top, s.memory * i);
  const x = L + (Math.log10(i) - s.x0) / (s.x1 - s.x0) * (W - L - R);
  const y = H - B - (Math.log10(p) - s.y0) / (s.y1 - s.y0) * (H - B - T);
  const dot = document.createElementNS("http://www.w3.org/2000/svg", "circle");
  const look = {cx: x, cy: y, r: 7, fill: "#009E73"};
  for (const [k, v] of Object.entries(look)) dot.setAttribute(k, v);
  const tip = document.createElementNS("http://www.w3.org/2000/svg", "title");
  out.value = tip.textContent = `${form.elements["n"].value}: ${i.toPrecision(3)} flop/byte, ` +
    `${(p / 1e9).toPrecision(3)} Gflop/s, ${(100 * p / roof).toFixed(0)} % of the memory's roof`;
  dot.append(tip);
  svg.append(dot);
});
"""


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


def _number(value: float) -> str:
    return f"{value:g}"


def latency(curve: Sequence[Sequence[float]], found: Sequence[Mapping], reported=(), ax=None):
    """Draw the time of one load (ns) against the working set, capacities found and reported.

    ``curve``: [bytes, seconds]; ``found``: dicts with capacity in bytes; ``reported``: dicts with
    level and size.
    """
    ax = _axes(ax)
    sizes, times = np.asarray(curve).T
    ax.plot(sizes / 1024, times * 1e9, color=BLUE, label="pointer chase")
    for i, one in enumerate(found):
        if math.isfinite(one["capacity"]):
            ax.axvline(
                one["capacity"] / 1024,
                color=VERMILION,
                linewidth=1.5,
                label="found in the curve" if i == 0 else None,
            )
    for i, one in enumerate(reported):
        ax.axvline(
            one["size"] / 1024,
            color=GREEN,
            linestyle=":",
            linewidth=2.5,
            label="reported by the system" if i == 0 else None,
        )
    ax.set(xscale="log", yscale="log", xlabel="working set, KiB", ylabel="ns a load")
    ax.set_xscale("log", base=2)
    ax.set_title("Latency shows the caches")
    ax.legend(loc="upper left")
    return ax


def bandwidths(rows: Sequence[Mapping], threads: int, ax=None):
    """Draw read, copy and triad of each level as bars, GB/s, for a number of threads."""
    ax = _axes(ax)
    chosen = [row for row in rows if row["threads"] == threads]
    levels = list(dict.fromkeys(row["level"] for row in chosen))
    for i, kind in enumerate(("read", "copy", "triad")):
        rates = [r["rate"] / 1e9 for r in chosen if r["kind"] == kind]
        bars = ax.bar(np.arange(len(levels)) + 0.27 * (i - 1), rates, 0.25, label=kind)
        for bar, rate in zip(bars, rates, strict=True):
            bar.set_color(colour(i))
            ax.annotate(
                f"{rate:.0f}", (bar.get_x() + bar.get_width() / 2, rate), ha="center", va="bottom"
            )
    ax.set(yscale="log", ylabel="GB/s", title=f"Bandwidth by level, {threads} thread(s)")
    ax.set_xticks(range(len(levels)), levels)
    ax.legend()
    ax.grid(axis="x", visible=False)
    return ax


def misses(counts: Mapping[str, Mapping[str, int]], ax=None):
    """Draw the simulated misses of each loop order, stacked by matrix."""
    ax = _axes(ax)
    base = np.zeros(len(counts))
    for name, fill in (("a", BLUE), ("b", ORANGE), ("c", GREEN)):
        values = np.array([one[name] for one in counts.values()], dtype=float)
        ax.bar(list(counts), values, bottom=base, color=fill, label=f"of {name.upper()}")
        base += values
    ax.set(xlabel="order of the loops", ylabel="misses", title="Misses of a small simulated cache")
    ax.legend()
    ax.grid(axis="x", visible=False)
    return ax


def cache_step(order: str, n: int, cache, step: int):
    """Draw the three matrices after ``step`` accesses of a loop order; return the axes.

    Blue: in the cache now. Orange: the element just touched, a hit; red: a miss. ``cache`` is a
    fresh :class:`helpers.roofline.cache.Cache`; it is run from the beginning.
    """
    import matplotlib.pyplot as plt
    from matplotlib.colors import ListedColormap

    from helpers.roofline.cache import matmul_trace

    last = None
    for k, (name, row, column, address) in enumerate(matmul_trace(order, n)):
        if k >= step:
            break
        last = (name, row, column, cache.access(address))
    _, axes = plt.subplots(1, 3, figsize=(10, 3.8))
    lines = cache.lines
    for ax, (number, name) in zip(axes, enumerate("abc"), strict=True):
        base = number * n * n * 4
        cells = [
            [(base + (r * n + q) * 4) // cache.line in lines for q in range(n)] for r in range(n)
        ]
        picture = np.array(cells, dtype=int)
        if last and last[0] == name:
            picture[last[1], last[2]] = 2 if last[3] else 3
        ax.imshow(
            picture, cmap=ListedColormap(["#EEEEEE", BLUE, ORANGE, VERMILION]), vmin=0, vmax=3
        )
        ax.set_xticks(np.arange(-0.5, n), [])
        ax.set_yticks(np.arange(-0.5, n), [])
        ax.tick_params(length=0)
        ax.grid(color="white", linewidth=2)
        ax.set_title(name.upper())
    seen = cache.hits + cache.misses
    said = "" if last is None else f"{last[0].upper()} {'hit' if last[3] else 'miss'}; "
    axes[0].set_xlabel(f"{order}: {said}{cache.misses} misses in {seen} accesses")
    return axes


def _axes(ax):
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots()
    return ax
