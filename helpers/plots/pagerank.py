"""Pictures of PageRank: convergence, time against bytes, a few nodes, and a graph to zoom into."""

from __future__ import annotations

import html
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
from helpers.plots.web.page import embed

if TYPE_CHECKING:
    from IPython.display import HTML
    from matplotlib.axes import Axes
    from scipy.sparse import csr_array

FRAME = -500, -330, 1000, 660  # left, upper edge, width, height
FONT = 18  # of a name, in the SVG's units
LETTER, LINE = 11, 22  # width a letter, height
EDGE = 6  # between what is drawn and the frame
LOOK = {  # a second cue beside the colour, for those who do not tell colours apart
    "centre": f'fill="{VERMILION}" stroke="{BLACK}" stroke-width="3"',
    "needed": f'fill="{BLUE}"',
    "user": f'fill="{ORANGE}" stroke="{BLACK}" stroke-width="1.5" stroke-dasharray="4 3"',
}
MOST = 14  # nodes of each kind that are shown
TOLD = 5  # names of each kind in the picture's description, from the highest rank down
TIP = 11  # length of an arrow's
WIDE, HIGH = 4.6, 2.1  # of a small graph: between its columns, between its rows
LARGEST = 0.75  # radius
ASIDE = 0.16  # of a link from the straight line, if another one comes back
SHAKE = 8  # by which circles with their names are shaken apart: standard deviation


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


def neighbourhood(
    adjacency: csr_array,
    names: Sequence[str],
    scores: Sequence[float],
    centre: int,
) -> HTML:
    """Return a picture of a node's surroundings to zoom, to move and to walk through.

    Shows ``centre`` (a thick edge), and the 14 highest-ranked nodes among those that it links
    to in one or two steps (blue), and of those that link to it (orange, a dashed edge). Area grows
    with rank.
    """
    needs = set(_targets(adjacency, centre))
    needs |= {t for n in needs for t in _targets(adjacency, n)} - {centre}
    column = adjacency.tocsc()
    users = set(column.indices[column.indptr[centre] : column.indptr[centre + 1]].tolist()) - needs
    kept = [centre]
    for group in (needs, users - {centre}):
        kept += sorted(group, key=lambda i: -scores[i])[:MOST]
    inside = set(kept)
    edges = [(a, b) for a in kept for b in _targets(adjacency, a) if b in inside and a != b]
    largest = max(scores[i] for i in kept)
    radii = [round(7 + 28 * float(np.sqrt(scores[i] / largest)), 1) for i in kept]
    places = _apart(_layout(kept, edges), radii, [len(names[i]) for i in kept])
    nodes = [
        {
            "x": round(float(x), 1),
            "y": round(float(y), 1),
            "r": radius,
            "name": names[i],
            "kind": "centre" if i == centre else "needed" if i in needs else "user",
            "rank": f"{100 * scores[i]:.3g} %",
        }
        for i, (x, y), radius in zip(kept, places, radii, strict=True)
    ]
    number = {i: k for k, i in enumerate(kept)}
    still = _svg(nodes, [(number[a], number[b]) for a, b in edges])
    return embed("neighbourhood", None, still=still)


def _targets(adjacency: csr_array, node: int) -> list[int]:
    return adjacency.indices[adjacency.indptr[node] : adjacency.indptr[node + 1]].tolist()


def _layout(nodes: Sequence[int], edges: Sequence[tuple[int, int]]) -> np.ndarray:
    """Return where springs put the nodes, (n, 2), stretched to the frame."""
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(edges)
    found = nx.spring_layout(graph, k=1.6 / np.sqrt(len(nodes)), seed=0, iterations=80)
    places = np.array([found[node] for node in nodes])
    low, wide = places.min(axis=0), np.ptp(places, axis=0)
    share = np.where(wide > 1e-9, (places - low) / np.maximum(wide, 1e-9), 0.5)
    return share * FRAME[2:] + FRAME[:2]


def _apart(places: np.ndarray, radii: Sequence[float], letters: Sequence[int]) -> np.ndarray:
    """Return the places moved so that circles with their names lie apart, and in the frame.

    A circle and its name take a box. Two that overlap part by half of it each, in the direction in
    which that is less, again and again; a little shaking keeps a crowd from getting stuck.
    """
    radii = np.asarray(radii, float)
    half = np.stack([np.maximum(radii, LETTER / 2 * np.asarray(letters)), radii + LINE / 2], 1)
    centre = places - [0, LINE / 2]  # of the boxes
    low = np.array(FRAME[:2]) + half + EDGE
    high = np.array(FRAME[:2]) + FRAME[2:] - half - EDGE
    first = np.tri(len(radii), k=-1)  # of two at one place, who goes which way
    rng = np.random.default_rng(0)
    for _ in range(500):
        centre = np.clip(centre, low, np.maximum(low, high))
        between = centre[:, None] - centre[None]
        over = half[:, None] + half[None] - abs(between)
        met = (over > 0).all(axis=2) & ~np.eye(len(radii), dtype=bool)
        if not met.any():
            break
        least = over == over.min(axis=2, keepdims=True)
        way = np.where(between, np.sign(between), (first - first.T)[..., None])
        push = 0.5 * (np.where(least, over + 1, 0) * way * met[..., None]).sum(axis=1)
        shaken = rng.normal(0, SHAKE, centre.shape) * met.any(axis=1)[:, None]
        centre = centre + push + shaken
    return np.clip(centre, low, np.maximum(low, high)) + np.array([0, LINE / 2])


def _svg(nodes: Sequence[Mapping], edges: Sequence[tuple[int, int]]) -> str:
    """The picture as it reads without a script."""
    lines = "".join(_arrow(nodes[i], nodes[j]) for i, j in edges)
    marks = "".join(
        f'<circle cx="{n["x"]}" cy="{n["y"]}" r="{n["r"]}" {LOOK[n["kind"]]}>'
        f"<title>{html.escape(n['name'])}: {n['rank']}</title></circle>"
        f'<text stroke="none" x="{n["x"]}" y="{n["y"] - n["r"] - 5:.1f}">'
        f"{html.escape(n['name'])}</text>"
        for n in nodes
    )
    return (
        f'<svg viewBox="{" ".join(map(str, FRAME))}" role="group" font-size="{FONT}" '
        f'aria-label="{_told(nodes)}" text-anchor="middle" font-family="sans-serif">'
        f'<g stroke="{GREY}" stroke-width="0.8" fill="{GREY}">{lines}</g>'
        f'<g stroke="#fff">{marks}</g></svg>'
        "<small>Thick edge: the centre; blue: what it needs, in one or two steps; orange, "
        "dashed edge: what needs it. An arrow leads to what is needed. The larger, the higher its "
        "rank.</small>"
    )


def _arrow(a: Mapping, b: Mapping) -> str:
    """A line from one circle's middle, with a tip at the other circle's edge."""
    way = np.array([b["x"] - a["x"], b["y"] - a["y"]])
    way = way / max(float(np.hypot(*way)), 1e-9)
    tip = np.array([b["x"], b["y"]]) - way * (b["r"] + 1)
    end, side = tip - way * TIP, way[::-1] * (TIP / 3, -TIP / 3)
    corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in (tip, end + side, end - side))
    return (
        f'<line x1="{a["x"]}" y1="{a["y"]}" x2="{end[0]:.1f}" y2="{end[1]:.1f}"/>'
        f'<polygon points="{corners}"/>'
    )


def _told(nodes: Sequence[Mapping]) -> str:
    """The picture in a sentence, for those who do not see it: whose surroundings, and how many."""
    named = {kind: [n["name"] for n in nodes if n["kind"] == kind] for kind in LOOK}
    said = [
        f"{len(names)} {words}: {', '.join(names[:TOLD])}{', …' if len(names) > TOLD else ''}"
        for words, names in (("that it needs", named["needed"]), ("that need it", named["user"]))
        if names
    ]
    (centre,) = named["centre"]
    return html.escape(f"{centre} and its surroundings. {'; '.join(said) or 'It has none'}")
