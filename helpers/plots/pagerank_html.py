"""A node of a graph and its surroundings: an SVG that reads without a script, to look around in.

In a browser test find its parts by ``data-testid``: ``neighbourhood`` (the whole),
``neighbourhood-closer``, ``-farther`` and ``-all`` (buttons), ``neighbourhood-said`` (the node that
has the focus).
"""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from helpers.plots.style import BLUE, ORANGE, VERMILION
from helpers.plots.web.page import embed

if TYPE_CHECKING:
    from IPython.display import HTML
    from scipy.sparse import csr_array


def neighbourhood(
    adjacency: csr_array,
    names: Sequence[str],
    scores: Sequence[float],
    centre: int,
    limit: int = 60,
    seed: int = 0,
) -> HTML:
    """Return a picture of a node's surroundings to zoom, to move and to walk through.

    Shows ``centre`` (red), and the highest-ranked nodes among those that it links to in one or two
    steps (blue) and that link to it (orange). Area grows with rank.

    Parameters
    ----------
    adjacency : scipy.sparse.csr_array
        (n, n): row i holds the nodes that node i links to.
    names : sequence of str
        The n nodes' names.
    scores : sequence of float
        The n nodes' ranks, which add up to 1.
    centre : int
        The node in the middle.
    limit : int
        How many other nodes are shown at most, half of them blue.
    seed : int
        Of the layout: the same gives the same picture.

    Returns
    -------
    IPython.display.HTML
        An SVG that reads without a script, and the script that moves it.
    """
    from IPython.display import HTML

    needs = set(_targets(adjacency, centre))
    needs |= {t for n in needs for t in _targets(adjacency, n)} - {centre}
    column = adjacency.tocsc()
    users = set(column.indices[column.indptr[centre] : column.indptr[centre + 1]].tolist()) - needs
    half = limit // 2
    kept = [centre]
    for group in (needs, users - {centre}):
        kept += sorted(group, key=lambda i: -scores[i])[:half]
    inside = set(kept)
    edges = [(a, b) for a in kept for b in _targets(adjacency, a) if b in inside and a != b]
    places = _layout(kept, edges, seed)
    largest = max(scores[i] for i in kept)
    nodes = [
        {
            "x": round(float(places[i][0]), 1),
            "y": round(float(places[i][1]), 1),
            "r": round(5 + 25 * float(np.sqrt(scores[i] / largest)), 1),
            "name": names[i],
            "fill": VERMILION if i == centre else BLUE if i in needs else ORANGE,
            "rank": f"{100 * scores[i]:.3g} %",
        }
        for i in kept
    ]
    number = {i: k for k, i in enumerate(kept)}
    still = _svg(nodes, [(number[a], number[b]) for a, b in edges])
    return HTML(embed("neighbourhood.js", "neighbourhood.css", None, still=still))


def _targets(adjacency: csr_array, node: int) -> list[int]:
    return adjacency.indices[adjacency.indptr[node] : adjacency.indptr[node + 1]].tolist()


def _layout(nodes: Sequence[int], edges: Sequence[tuple[int, int]], seed: int) -> dict:
    import networkx as nx

    graph = nx.Graph(edges)
    graph.add_nodes_from(nodes)
    return nx.spring_layout(graph, k=1.6 / np.sqrt(len(nodes)), seed=seed, scale=420, iterations=80)


def _svg(nodes: Sequence[Mapping], edges: Sequence[tuple[int, int]]) -> str:
    """The picture as it reads without a script."""
    lines = "".join(
        f'<line x1="{a["x"]}" y1="{a["y"]}" x2="{b["x"]}" y2="{b["y"]}"/>'
        for a, b in ((nodes[i], nodes[j]) for i, j in edges)
    )
    marks = "".join(
        f'<circle cx="{n["x"]}" cy="{n["y"]}" r="{n["r"]}" fill="{n["fill"]}">'
        f"<title>{html.escape(n['name'])}: {n['rank']}</title></circle>"
        f'<text stroke="none" x="{n["x"]}" y="{n["y"] - n["r"] - 2:.1f}">'
        f"{html.escape(n['name'])}</text>"
        for n in nodes
    )
    return (
        '<svg viewBox="-500 -330 1000 660" role="group" aria-label="a node and its surroundings" '
        'font-size="13" text-anchor="middle" font-family="sans-serif">'
        f'<g stroke="#999" stroke-opacity="0.45">{lines}</g><g stroke="#fff">{marks}</g></svg>'
        "<small>Red: the centre; blue: what it needs, in one or two steps; orange: what needs it. "
        "The larger, the higher its rank.</small>"
    )
