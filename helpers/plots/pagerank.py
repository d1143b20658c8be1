"""Pictures of PageRank: convergence, time against bytes, growth, and a graph to zoom into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.plots.pagerank_html import neighbourhood
from helpers.plots.roofline_html import apart
from helpers.plots.style import (
    BLUE,
    GREY,
    MARKERS,
    ORANGE,
    VERMILION,
    colour,
    ensure_axes,
    ensure_panels,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["bars", "convergence", "growth", "neighbourhood", "time_against_bytes"]


def convergence(
    residuals: Mapping[str, Sequence[float]], damping: float, given: int, ax: Axes | None = None
) -> Axes:
    """Draw how much each iteration changes, the bound 2·dᵏ, and a given number of iterations.

    Parameters
    ----------
    residuals : mapping of str to sequence of float
        A run's name → the L1 change of each iteration.
    damping : float
        d, between 0 and 1.
    given : int
        The number of iterations that the source asks for.
    ax : matplotlib.axes.Axes, optional
        Where to draw: by default in a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        What was drawn in.
    """
    ax = ensure_axes(ax)
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


def time_against_bytes(rows: Sequence[Mapping], bandwidth: float, ax: Axes | None = None) -> Axes:
    """Draw each version's time per iteration against its bytes, and bytes ÷ bandwidth.

    Parameters
    ----------
    rows : sequence of mapping
        Each with ``version``, ``bytes`` and ``seconds`` of one iteration.
    bandwidth : float
        Bytes/s that this machine reads.
    ax : matplotlib.axes.Axes, optional
        Where to draw: by default in a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        What was drawn in.
    """
    ax = ensure_axes(ax)
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


def growth(
    edges: Sequence[int],
    seconds: Sequence[float],
    nodes: Sequence[int],
    free: float,
    recorded: Any = None,
    axes: Sequence[Axes] | None = None,
) -> Sequence[Axes]:
    """Draw version 4's time per iteration and memory as the graph grows, and where dense ends.

    Parameters
    ----------
    edges : sequence of int
        Of the graphs that were measured.
    seconds : sequence of float
        One iteration's time on each.
    nodes : sequence of int
        Of the same graphs.
    free : float
        Memory of this machine, bytes.
    recorded : object, optional
        Larger graphs from a record, drawn hollow: its label, edges, nodes, seconds and bytes.
    axes : sequence of matplotlib.axes.Axes, optional
        Two, for time and for memory: by default those of a new figure.

    Returns
    -------
    sequence of matplotlib.axes.Axes
        Two, for time and for memory.
    """
    from matplotlib.patheffects import withStroke

    edges, nodes = np.asarray(edges, float), np.asarray(nodes, float)
    left, right = ensure_panels(axes, 2, figsize=(10.5, 4.8))
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
    right.plot(far[fits], dense[fits] / 2**30, color=ORANGE, marker="", ls="--", label="dense")
    right.plot(far[~fits], dense[~fits] / 2**30, color=ORANGE, marker="", ls=":",
               label="dense: does not fit")  # fmt: skip
    right.plot(
        far, dense / 32 / 2**30, color=GREY, marker="", ls="-.", label="dense, one bit an entry"
    )
    right.axhline(free / 2**30, color=VERMILION, linewidth=1.5, label="memory of this machine")
    if not fits.all() and fits.any():
        end = far[fits][-1]
        right.plot([end], [free / 2**30], "x", color=VERMILION, ms=12, mew=3)
        said = f"dense ends at {float(f'{end:.1g}'):,.0f} edges".replace(",", "\u202f")
        halo = [withStroke(linewidth=3, foreground="white")]  # a line passes behind the letters
        right.annotate(said, (end, free / 2**30), xytext=(8, -18), textcoords="offset points",
                       size=11, path_effects=halo, zorder=5)  # fmt: skip
    right.set(xscale="log", yscale="log", xlabel="edges", ylabel="GiB", title="Memory")
    right.legend(fontsize=10, loc="upper left")
    return left, right


def bars(names: Sequence[str], scores: Sequence[float], title: str, ax: Axes | None = None) -> Axes:
    """Draw ranks as horizontal bars, the first on top, in percent.

    Parameters
    ----------
    names : sequence of str
        The nodes.
    scores : sequence of float
        Their ranks, of a total of 1.
    title : str
        What stands above.
    ax : matplotlib.axes.Axes, optional
        Where to draw: by default in a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        What was drawn in.
    """
    ax = ensure_axes(ax)
    order = range(len(names))[::-1]
    ax.barh([names[i] for i in order], [100 * scores[i] for i in order], color=BLUE)
    ax.set(xlabel="rank, % of the total", title=title)
    ax.grid(axis="y", visible=False)
    return ax
