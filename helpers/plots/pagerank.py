"""Pictures of PageRank: convergence, time against bytes, and a graph to zoom into."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from helpers.plots.roofline_html import apart
from helpers.plots.style import (
    BLACK,
    BLUE,
    GREY,
    MARKERS,
    ORANGE,
    VERMILION,
    colour,
    ensure_axes,
)
from helpers.plots.web.page import embed

if TYPE_CHECKING:
    from IPython.display import HTML
    from matplotlib.axes import Axes
    from scipy.sparse import csr_array

FRAME = -500, -330, 1000, 660  # left, upper edge, width, height
LETTER, LINE = 8, 16  # of a name in the SVG's units: width a letter, height
EDGE = 6  # between what is drawn and the frame
LOOK = {  # a second cue beside the colour, for those who do not tell colours apart
    "centre": f'fill="{VERMILION}" stroke="{BLACK}" stroke-width="3"',
    "needed": f'fill="{BLUE}"',
    "user": f'fill="{ORANGE}" stroke="{BLACK}" stroke-width="1.5" stroke-dasharray="4 3"',
}
MOST = 30  # nodes of each kind that are shown
TOLD = 5  # names of each kind in the picture's description, from the highest rank down
SHAKE = 8  # by which circles with their names are shaken apart: standard deviation


def convergence(residuals: Mapping[str, Sequence[float]], damping: float, given: int) -> Axes:
    """Draw how much each iteration changes (L1), the bound 2·dᵏ, and how many are ``given``."""
    ax = ensure_axes()
    ax.figure.set_label("How much each iteration still changes")
    longest = max(map(len, residuals.values()))
    steps = np.arange(1, max(longest, given) + 1)
    ax.plot(steps, 2 * damping**steps, "--", color=GREY, marker="", label=f"bound 2·{damping}ᵏ")
    for i, (name, values) in enumerate(residuals.items()):
        ax.plot(
            range(1, len(values) + 1), values, color=colour(i), marker=MARKERS[i % len(MARKERS)],
            markevery=max(1, len(values) // 8), label=name, linewidth=2.5,
        )  # fmt: skip
    ax.axvline(given, color=VERMILION, linewidth=1.5, label=f"K = {given}, as in the source")
    ax.set(yscale="log", xlabel="iteration k", ylabel="L1 change", title="How many are enough?")
    ax.set_ylim(1e-13, 3)
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return ax


def time_against_bytes(rows: Sequence[Mapping], bandwidth: float) -> Axes:
    """Draw each version's time per iteration against its bytes, and bytes ÷ bandwidth.

    ``rows`` have ``version``, ``bytes`` and ``seconds`` of one iteration; ``bandwidth`` is in
    bytes/s.
    """
    ax = ensure_axes()
    low = min(row["bytes"] for row in rows) / 2
    high = max(row["bytes"] for row in rows) * 2
    x = np.array([low, high])
    floor = x / bandwidth * 1e3
    ax.plot(x, floor, "--", color=GREY, marker="", label=f"read at {bandwidth / 1e9:.0f} GB/s")
    ax.set(xscale="log", yscale="log", xlabel="bytes per iteration", ylabel="ms per iteration")
    for i, row in enumerate(rows):
        y = row["seconds"] * 1e3
        ax.plot(row["bytes"], y, MARKERS[i % len(MARKERS)], color=colour(i), markersize=11)
    scale = 72 / ax.figure.dpi  # pixels to points, downwards
    at = ax.transData.transform([(row["bytes"], row["seconds"] * 1e3) for row in rows])
    down = apart([(x * scale, -y * scale) for x, y in at], ["00" for _ in rows], 15, 8)
    for row, moved in zip(rows, down, strict=True):
        ax.annotate(row["version"], (row["bytes"], row["seconds"] * 1e3), xytext=(9, 4 - moved),
                    textcoords="offset points", size=14)  # fmt: skip
    ax.set_title("Versions, by number: bytes set the least time")
    ax.legend(loc="upper left")
    return ax


def bars(names: Sequence[str], scores: Sequence[float], title: str) -> Axes:
    """Draw ranks, of a total of 1, as horizontal bars, the first on top, in percent."""
    ax = ensure_axes()
    order = range(len(names))[::-1]
    ax.barh([names[i] for i in order], [100 * scores[i] for i in order], color=BLUE)
    ax.set(xlabel="rank, % of the total", title=title)
    ax.grid(axis="y", visible=False)
    return ax


def neighbourhood(
    adjacency: csr_array,
    names: Sequence[str],
    scores: Sequence[float],
    centre: int,
) -> HTML:
    """Return a picture of a node's surroundings to zoom, to move and to walk through.

    Shows ``centre`` (red, a thick edge), and the 30 highest-ranked nodes among those that it links
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
    radii = [round(5 + 25 * float(np.sqrt(scores[i] / largest)), 1) for i in kept]
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
    which that is less, again and again; a little shaking keeps a crowd from getting stuck. The more
    there are the fewer the rounds, each of which looks at every two: hundreds still take a second.
    """
    radii = np.asarray(radii, float)
    half = np.stack([np.maximum(radii, LETTER / 2 * np.asarray(letters)), radii + LINE / 2], 1)
    centre = places - [0, LINE / 2]  # of the boxes
    low = np.array(FRAME[:2]) + half + EDGE
    high = np.array(FRAME[:2]) + FRAME[2:] - half - EDGE
    first = np.tri(len(radii), k=-1)  # of two at one place, who goes which way
    rng = np.random.default_rng(0)
    for _ in range(min(500, 2_000_000 // len(radii) ** 2 + 20)):
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
    lines = "".join(
        f'<line x1="{a["x"]}" y1="{a["y"]}" x2="{b["x"]}" y2="{b["y"]}"/>'
        for a, b in ((nodes[i], nodes[j]) for i, j in edges)
    )
    marks = "".join(
        f'<circle cx="{n["x"]}" cy="{n["y"]}" r="{n["r"]}" {LOOK[n["kind"]]}>'
        f"<title>{html.escape(n['name'])}: {n['rank']}</title></circle>"
        f'<text stroke="none" x="{n["x"]}" y="{n["y"] - n["r"] - 2:.1f}">'
        f"{html.escape(n['name'])}</text>"
        for n in nodes
    )
    return (
        f'<svg viewBox="{" ".join(map(str, FRAME))}" role="group" font-size="13" '
        f'aria-label="{_told(nodes)}" text-anchor="middle" font-family="sans-serif">'
        f'<g stroke="{GREY}" stroke-width="0.8">{lines}</g><g stroke="#fff">{marks}</g></svg>'
        "<small>Red, thick edge: the centre; blue: what it needs, in one or two steps; orange, "
        "dashed edge: what needs it. The larger, the higher its rank.</small>"
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
