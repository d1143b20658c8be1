"""A node of a graph with its neighbours, to zoom into: what it needs, and what needs it."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from helpers.plots.style import BLACK, BLUE, GREY, ORANGE, VERMILION
from helpers.plots.web.page import embed

if TYPE_CHECKING:
    from IPython.display import HTML
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
SHAKE = 8  # by which circles with their names are shaken apart: standard deviation


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
