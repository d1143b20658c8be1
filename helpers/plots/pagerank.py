"""Pictures of PageRank: convergence, time against bytes, growth, and a graph to zoom into."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence

import numpy as np

from helpers.plots.style import BLUE, GREY, MARKERS, ORANGE, VERMILION, colour


def convergence(residuals: Mapping[str, Sequence[float]], damping: float, given: int, ax=None):
    """Draw the L1 change of each iteration, the bound 2·dᵏ, and the ``given`` iteration count."""
    ax = _axes(ax)
    longest = max(map(len, residuals.values()))
    steps = np.arange(1, max(longest, given) + 1)
    ax.plot(steps, 2 * damping**steps, "--", color=GREY, marker="", label=f"bound 2·{damping}ᵏ")
    for i, (name, values) in enumerate(residuals.items()):
        ax.plot(
            range(1, len(values) + 1), values, color=colour(i), marker="", label=name, linewidth=2.5
        )
    ax.axvline(given, color=VERMILION, linewidth=1.5, label=f"K = {given}, as in the source")
    ax.set(yscale="log", xlabel="iteration k", ylabel="L1 change", title="How many are enough?")
    ax.set_ylim(1e-13, 3)
    ax.legend()
    return ax


def time_against_bytes(rows: Sequence[Mapping], bandwidth: float, ax=None):
    """Draw each version's time per iteration (s) against its bytes, and bytes ÷ ``bandwidth``.

    ``rows``: mappings with ``version``, ``bytes`` and ``seconds``; ``bandwidth`` in bytes/s.
    """
    ax = _axes(ax)
    low = min(row["bytes"] for row in rows) / 2
    high = max(row["bytes"] for row in rows) * 2
    x = np.array([low, high])
    floor = x / bandwidth * 1e3
    ax.plot(x, floor, "--", color=GREY, marker="", label=f"read at {bandwidth / 1e9:.0f} GB/s")
    for i, row in enumerate(rows):
        y = row["seconds"] * 1e3
        ax.plot(row["bytes"], y, MARKERS[i % len(MARKERS)], color=colour(i), markersize=11)
        ax.annotate(
            row["version"], (row["bytes"], y), xytext=(9, 5), textcoords="offset points", size=14
        )
    ax.set(xscale="log", yscale="log", xlabel="bytes per iteration", ylabel="ms per iteration")
    ax.set_title("Versions, by number: time follows bytes")
    ax.legend(loc="upper left")
    return ax


def growth(edges: Sequence[int], seconds: Sequence[float], nodes: Sequence[int], free: float,
           recorded=None):  # fmt: skip
    """Draw version 4's time per iteration and memory as the graph grows, and where dense ends.

    ``free``: memory of this machine in bytes. ``recorded``: larger graphs from a record (an object
    with label, edges, nodes, seconds and bytes), drawn hollow. Returns the two axes.
    """
    import matplotlib.pyplot as plt

    edges, nodes = np.asarray(edges, float), np.asarray(nodes, float)
    _, (left, right) = plt.subplots(1, 2, figsize=(12, 4.8))
    left.plot(edges, np.asarray(seconds) * 1e3, color=BLUE, label="measured now")
    far_edges, far_nodes = edges, nodes
    hollow = {"color": GREY, "marker": "o", "mfc": "white", "ms": 9, "ls": ":", "zorder": 1}
    if recorded is not None:
        far_edges, far_nodes = (np.asarray(a, float) for a in (recorded.edges, recorded.nodes))
        left.plot(far_edges, np.asarray(recorded.seconds) * 1e3, **hollow, label=recorded.label)
        right.plot(far_edges, np.asarray(recorded.bytes) / 2**30, **hollow)
    left.set(xscale="log", yscale="log", xlabel="edges", ylabel="ms per iteration", title="Time")
    left.legend(fontsize=11)
    right.plot(edges, (8 * edges + 12 * nodes) / 2**30, color=BLUE, label="CSR")
    far = np.geomspace(far_edges.min(), far_edges.max(), 50)
    size = np.interp(np.log(far), np.log(far_edges), np.log(far_nodes))
    dense = 4 * np.exp(size) ** 2
    fits = dense <= free
    right.plot(far[fits], dense[fits] / 2**30, color=ORANGE, marker="", label="dense")
    right.plot(far[~fits], dense[~fits] / 2**30, color=ORANGE, marker="", ls=":",
               label="dense: does not fit")  # fmt: skip
    right.plot(far, dense / 32 / 2**30, color=GREY, marker="", label="dense, one bit an entry")
    right.axhline(free / 2**30, color=VERMILION, linewidth=1.5, label="memory of this machine")
    if not fits.all() and fits.any():
        end = far[fits][-1]
        right.plot([end], [free / 2**30], "x", color=VERMILION, ms=12, mew=3)
        right.annotate(f"dense ends at {end:.0e} edges", (end, free / 2**30), xytext=(8, -18),
                       textcoords="offset points", size=11)  # fmt: skip
    right.set(xscale="log", yscale="log", xlabel="edges", ylabel="GiB", title="Memory")
    right.legend(fontsize=10, loc="upper left")
    return left, right


def bars(names: Sequence[str], scores: Sequence[float], title: str, ax=None):
    """Draw ranks as horizontal bars, the highest on top, in percent."""
    ax = _axes(ax)
    order = range(len(names))[::-1]
    ax.barh([names[i] for i in order], [100 * scores[i] for i in order], color=BLUE)
    ax.set(xlabel="rank, % of the total", title=title)
    ax.grid(axis="y", visible=False)
    return ax


def neighbourhood(adjacency, names, scores, centre: int, limit: int = 60, seed: int = 0):
    """Return a picture of a node's surroundings to zoom, drag and hover over (an HTML object).

    Shows ``centre`` (red), and the up to ``limit`` highest-ranked nodes among those that it links
    to in one or two steps (blue) and that link to it (orange). Area grows with rank.
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
    return HTML(_page(nodes, [(number[a], number[b]) for a, b in edges], f"neighbourhood-{centre}"))


def _targets(adjacency, node: int) -> list[int]:
    return adjacency.indices[adjacency.indptr[node] : adjacency.indptr[node + 1]].tolist()


def _layout(nodes, edges, seed: int):
    import networkx as nx

    graph = nx.Graph(edges)
    graph.add_nodes_from(nodes)
    return nx.spring_layout(graph, k=1.6 / np.sqrt(len(nodes)), seed=seed, scale=420, iterations=80)


def _page(nodes, edges, identity: str) -> str:
    """An SVG that reads without a script, and a script that zooms and drags it."""
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
    return f"""<div id="{identity}" style="max-width:900px">
<svg viewBox="-500 -330 1000 660" style="width:100%;background:#fff;border:1px solid #ddd;
 cursor:grab;touch-action:none" font-size="13" text-anchor="middle" font-family="sans-serif">
<g stroke="#999" stroke-opacity="0.45">{lines}</g><g stroke="#fff">{marks}</g></svg>
<small>Wheel: zoom. Drag: move. Point at a circle: its rank. Red: the centre; blue: what it needs,
in one or two steps; orange: what needs it.</small></div>
<script>(() => {{
const svg = document.querySelector({json.dumps("#" + identity + " svg")});
const box = svg.viewBox.baseVal;
const scale = () => box.width / svg.clientWidth;
svg.addEventListener("wheel", e => {{
  e.preventDefault();
  const f = e.deltaY > 0 ? 1.15 : 1 / 1.15, r = svg.getBoundingClientRect();
  const x = box.x + (e.clientX - r.left) * scale(), y = box.y + (e.clientY - r.top) * scale();
  box.x = x + (box.x - x) * f; box.y = y + (box.y - y) * f; box.width *= f; box.height *= f;
}}, {{passive: false}});
let from = null;
svg.addEventListener("pointerdown", e => {{
  from = [e.clientX, e.clientY];
  svg.setPointerCapture(e.pointerId);
}});
svg.addEventListener("pointermove", e => {{
  if (!from) return;
  box.x -= (e.clientX - from[0]) * scale(); box.y -= (e.clientY - from[1]) * scale();
  from = [e.clientX, e.clientY];
}});
svg.addEventListener("pointerup", () => {{ from = null; }});
}})();</script>"""


def _axes(ax):
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots()
    return ax
