"""Pictures of PageRank: convergence, time against bytes, a few nodes, and a graph to zoom into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from helpers.plots.labels import beside, together
from helpers.plots.style import (
    BLACK,
    BLUE,
    GREY,
    ORANGE,
    VERMILION,
    arrow,
    colour,
    ensure_axes,
    ink,
    legible,
    marker,
    note,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDE, HIGH = 4.6, 2.1  # of a small graph: between its columns, between its rows
LARGEST = 0.75  # radius
ASIDE = 0.16  # of a link from the straight line, if another one comes back


def convergence(
    residuals: Mapping[str, Sequence[float]],
    damping: float,
    given: int,
    tolerance: float | None = None,
) -> Axes:
    """Draw how much each iteration changes (L1), the bound 2·dᵏ, and how many are ``given``.

    A dotted line stands at the ``tolerance``, a power of ten, with a circle where the bound
    reaches it.
    """
    ax = ensure_axes()
    ax.figure.set_label("How much each iteration still changes the ranks, and the bound")
    longest = max(map(len, residuals.values()))
    steps = np.arange(1, max(longest, given) + 1)
    bound = 2 * damping**steps
    ax.plot(steps, bound, "--", color=GREY, marker="")
    middle = len(steps) // 2
    note(ax, f"bound 2·{damping}ᵏ", (steps[middle], bound[middle]), (12, 6), va="center")
    for i, (name, values) in enumerate(residuals.items()):
        look = {"color": colour(i), "marker": marker(i), "markevery": max(1, len(values) // 8)}
        ax.plot(range(1, len(values) + 1), values, linewidth=2.5, label=name, **look)
        ends = len(values), values[-1]
        shade = legible(colour(i))
        note(ax, f"{name}: {ends[0]}", ends, (4, -9), va="top", ha="left", color=shade)
    if tolerance:
        ax.axhline(tolerance, color=GREY, linestyle=":", linewidth=2, marker="", zorder=1)
        power = f"$10^{{{np.log10(tolerance):.0f}}}$"
        note(ax, f"tolerance {power}", (given, tolerance), (-8, 4), va="bottom", ha="right")
        late = np.flatnonzero(bound <= tolerance)[:1]
        ax.plot(steps[late], bound[late], "o", markersize=10, mfc="white", mec=BLACK, zorder=3)
    said = f"K = {given}, as in the source"
    ax.axvline(given, color=VERMILION, linewidth=1.5, label=said)
    note(ax, said, (given, 0.9), (-8, 0), va="center", ha="right", color=VERMILION,
         xycoords=("data", "axes fraction"))  # fmt: skip
    ax.set(yscale="log", xlabel="iteration k", ylabel="L1 change", title="How many are enough?")
    ax.set_ylim(1e-13, 3)
    return ax


def time_against_bytes(rows: Sequence[Mapping], bandwidth: float) -> Axes:
    """Draw each version's time per iteration against its bytes, and bytes ÷ bandwidth.

    ``rows`` have ``name``, ``bytes`` and ``seconds`` of one iteration; ``bandwidth`` is in
    bytes/s.
    """
    ax = ensure_axes()
    ax.figure.set_label("Time and bytes of an iteration of each version, and the least time")
    low = min(row["bytes"] for row in rows) / 4
    high = max(row["bytes"] for row in rows) * 8
    x = np.array([low, high]) / 1e6
    floor = x * 1e9 / bandwidth
    label = f"least time at {bandwidth / 1e9:.0f} GB/s"
    ax.plot(x, floor, "--", color=GREY, marker="", label=label)
    ax.set(xscale="log", yscale="log", xlabel="MB an iteration", ylabel="ms an iteration")
    points = [(row["bytes"] / 1e6, row["seconds"] * 1e3) for row in rows]
    for i, point in enumerate(points):
        ax.plot(*point, marker(i), color=BLUE, markersize=11)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter("{x:g}")
    ax.figure.canvas.draw()  # lays out: names go by pixels
    scale = 72 / ax.figure.dpi  # pixels to points, downwards
    at = [(u * scale, -v * scale) for u, v in ax.transData.transform(points)]
    room = ax.get_window_extent()
    within = room.x0 * scale, -room.y1 * scale, room.x1 * scale, -room.y0 * scale
    ends = ax.transData.transform(np.column_stack([x, floor])) * (scale, -scale)
    named = together(at, [row["name"] for row in rows], 3)
    widths = [8 * len(name) for _, name in named]
    found = beside([place for place, _ in named], widths, 18, [tuple(ends.ravel())], within)
    for (place, name), (left, middle) in zip(named, found, strict=True):
        point = ax.transData.inverted().transform((place[0] / scale, -place[1] / scale))
        shift = left - place[0], place[1] - middle
        note(ax, name, point, shift, va="center_baseline", size=14)
    ax.set_title("Bytes set the least time")
    ax.legend(loc="upper left")
    return ax


def bars(
    names: Sequence[str],
    scores: Sequence[float],
    title: str,
    before: Sequence[float] | None = None,
) -> Axes:
    """Draw ranks, of a total of 1, as horizontal bars, the first on top, in percent.

    A dot in each bar is the rank ``before``, with restarts everywhere.
    """
    ax = ensure_axes()
    order = range(len(names))[::-1]
    drawn = ax.barh([names[i] for i in order], [100 * scores[i] for i in order], color=BLUE)
    said = [f"{bar.get_width():{'.2g' if bar.get_width() >= 10 else '#.2g'}} %" for bar in drawn]
    ax.bar_label(drawn, labels=said, padding=4)
    ax.set(title=title)
    ax.figure.set_label("Rank in percent of all visits")
    if before is not None:
        dots = [100 * before[i] for i in order]
        ax.plot(dots, range(len(dots)), "o", color=ORANGE, markeredgecolor="white", markersize=10)
        ax.figure.set_label("Rank in percent of all visits; dots: with restarts everywhere")
    ax.margins(x=0.12)
    ax.set_xticks([])
    ax.spines["bottom"].set_visible(False)
    ax.grid(visible=False)
    return ax


def small_graph(G: np.ndarray, ranks: Sequence[float], cut: bool = False) -> Axes:
    """Draw few nodes in two columns: a circle's area is its rank, a link's number its share.

    ``G`` (N, N) has 1 at (i, j) for a link from j to i. ``cut`` gives the left column to process 0
    and the right one to process 1: a link that crosses is thick and named after what it carries.
    """
    from matplotlib.patches import Circle

    ax = ensure_axes(figsize=(9, 4.2))
    rows = (len(G) + 1) // 2
    places = [np.array([WIDE * (i // rows), -HIGH * (i % rows)]) for i in range(len(G))]
    radii = LARGEST * np.sqrt(np.asarray(ranks) / max(ranks))
    for i, (place, radius) in enumerate(zip(places, radii, strict=True)):
        fill = ORANGE if cut and i >= rows else BLUE
        ax.add_patch(Circle(place, radius, fc=fill, ec="none", zorder=2))
        ax.text(*place, f"{i}", ha="center", va="bottom", size=17, weight="bold", color=ink(fill))
        ax.text(*place, f"{100 * ranks[i]:.0f} %", ha="center", va="top", color=ink(fill))
    for target, source in zip(*np.nonzero(G), strict=True):
        crosses = cut and (source < rows) != (target < rows)
        way = places[target] - places[source]
        way = way / np.hypot(*way)
        side = np.array([-way[1], way[0]])  # to the left of who follows the link
        aside = ASIDE * bool(G[source, target])
        start, end = (
            places[node] + side * aside + sign * way * (np.sqrt(radii[node] ** 2 - aside**2) + gap)
            for node, sign, gap in ((source, 1, 0.03), (target, -1, 0.05))
        )
        shade, width = (VERMILION, 3.2) if crosses else (GREY, 1.8)
        arrow(ax, start, end, shade, "-|>", width, mutation_scale=18)
        if crosses or not cut:
            out = int(G[:, source].sum())
            said = f"rank of {source}" if cut else f"1/{out}" if out > 1 else "1"
            apart = 0.27 + 0.4 * cut * abs(way[0] * way[1])  # words are wide: further off a slope
            at = start + (0.5 - 0.2 * way[0]) * (end - start) + apart * side  # off the cut
            shade = legible(VERMILION) if cut else BLACK
            ax.text(*at, said, ha="center", va="center", size=14, color=shade)
    ax.set(xlim=(-1.6, WIDE + 1.6), ylim=(-HIGH * (rows - 1) - 0.9, 1.3 if cut else 0.9))
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.figure.set_label("Each node's rank, and the share of it that each link carries")
    if cut:
        ax.axvline(WIDE / 2, color=GREY, linestyle="--", linewidth=2, zorder=1)
        for x, process in ((0, 0), (WIDE, 1)):
            ax.text(x, 1.15, f"process {process}", ha="center", va="center", size=15)
        ax.figure.set_label("A graph cut for two processes: thick links cross the cut")
    return ax
