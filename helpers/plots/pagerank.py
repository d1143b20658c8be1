"""Pictures of PageRank: convergence, time against bytes, and a graph to zoom into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from helpers.plots.pagerank_html import neighbourhood
from helpers.plots.roofline_html import apart
from helpers.plots.style import (
    BLUE,
    GREY,
    MARKERS,
    VERMILION,
    colour,
    ensure_axes,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["bars", "convergence", "neighbourhood", "time_against_bytes"]


def convergence(residuals: Mapping[str, Sequence[float]], damping: float, given: int) -> Axes:
    """Draw how much each iteration changes (L1), the bound 2·dᵏ, and how many are ``given``."""
    ax = ensure_axes()
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
