"""The ceilings' curves; a cache, step by step; the roofline itself is roofline_html's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from helpers.plots.roofline_html import interactive
from helpers.plots.style import (
    BLUE,
    GREEN,
    ORANGE,
    VERMILION,
    colour,
    ensure_axes,
    panels,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from helpers.roofline.cache import Cache

__all__ = ["bandwidths", "cache_step", "interactive", "latency", "misses"]


def latency(
    curve: Sequence[Sequence[float]],
    found: Sequence[Mapping],
    reported: Sequence[Mapping] = (),
) -> Axes:
    """Draw the time of one load against the working set, and the capacities of the caches.

    ``curve`` is bytes and seconds of one load; ``found`` has each ``capacity`` that it shows, and
    ``reported`` each ``level`` and ``size`` that the system says, in bytes.
    """
    ax = ensure_axes()
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
    powers = range(round(math.log2(max(sizes[-1] / 1024, 2))) + 1)
    ax.set_xticks([2**k for k in powers[::2]], [str(2**k) for k in powers[::2]])
    ax.set_xticks([2**k for k in powers[1::2]], [""] * len(powers[1::2]), minor=True)
    ax.set_xlim(0.8 * sizes[0] / 1024, 1.25 * sizes[-1] / 1024)
    ax.set_title("Latency of a load")
    ax.figure.set_label(
        "Latency of a load" + (", and the capacities that it shows" if found else "")
    )
    # Beside the title: nowhere else is there room that neither the curve nor a line crosses.
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, fontsize=11, columnspacing=1)
    return ax


def bandwidths(rows: Sequence[Mapping], threads: int, ax: Axes | None = None) -> Axes:
    """Draw read, copy and triad of each level as bars, GB/s, for one number of threads.

    ``rows`` have ``level``, ``kind``, ``threads`` and ``rate`` in bytes/s.
    """
    ax = ensure_axes(ax)
    chosen = [row for row in rows if row["threads"] == threads]
    levels = list(dict.fromkeys(row["level"] for row in chosen))
    for i, kind in enumerate(("read", "copy", "triad")):
        rows_ = [r for r in chosen if r["kind"] == kind]
        if not rows_:
            continue
        rates = [r["rate"] / 1e9 for r in rows_]
        at = [levels.index(r["level"]) + 0.27 * (i - 1) for r in rows_]
        bars = ax.bar(at, rates, 0.25, label=kind, hatch=("", "//", "..")[i], edgecolor="white")
        for bar, rate in zip(bars, rates, strict=True):
            bar.set_facecolor(colour(i))  # its edge stays white, and with it the hatch
            ax.annotate(
                f"{rate:.0f}", (bar.get_x() + bar.get_width() / 2, rate), ha="center", va="bottom"
            )
    ax.set(ylabel="GB/s", title=f"{threads} thread" + "s" * (threads > 1))
    ax.set_xticks(range(len(levels)), levels)
    ax.set(xlim=(-0.5, max(len(levels), 1) - 0.5))
    ax.margins(y=0.1)
    ax.grid(axis="x", visible=False)
    if levels:
        ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, fontsize=11)
    else:  # the machine was too busy
        ax.text(
            0.5, 0.5, "not measured: the machine was too busy", transform=ax.transAxes, ha="center"
        )
    return ax


def misses(counts: Mapping[str, Mapping[str, int]]) -> Axes:
    """Draw the simulated misses of each loop order, stacked by matrix ``"a"``, ``"b"``, ``"c"``."""
    ax = ensure_axes()
    base = np.zeros(len(counts))
    for name, fill in (("a", BLUE), ("b", ORANGE), ("c", GREEN)):
        values = np.array([one[name] for one in counts.values()], dtype=float)
        ax.bar(list(counts), values, bottom=base, color=fill, label=f"of {name.upper()}",
               hatch={"a": "", "b": "//", "c": ".."}[name], edgecolor="white")  # fmt: skip
        base += values
    ax.set(xlabel="order of the loops", ylabel="misses", title="Misses of a small simulated cache")
    ax.legend()
    ax.grid(axis="x", visible=False)
    return ax


def cache_step(order: str, n: int, cache: Cache, step: int) -> Sequence[Axes]:
    """Draw the three matrices (n, n) of a product after some accesses of a loop order.

    Blue: in the cache now, a fresh one that is run from the beginning. The element just touched is
    ringed: a filled circle for a hit, a cross for a miss.
    """
    from matplotlib.colors import ListedColormap

    from helpers.roofline.cache import matmul_trace

    last = None
    for k, (name, row, column, address) in enumerate(matmul_trace(order, n)):
        if k >= step:
            break
        last = (name, row, column, cache.access(address))
    axes = panels(3, figsize=(10, 3.8))
    axes[0].figure.set_label("What a small cache holds of three matrices")
    lines = cache.lines
    for ax, (number, name) in zip(axes, enumerate("abc"), strict=True):
        base = number * n * n * 4
        cells = [
            [(base + (r * n + q) * 4) // cache.line in lines for q in range(n)] for r in range(n)
        ]
        picture = np.array(cells, dtype=int)
        if last and last[0] == name:
            picture[last[1], last[2]] = 2 if last[3] else 3
        ax.imshow(picture, cmap=ListedColormap(["#EEEEEE", BLUE, BLUE, ORANGE]), vmin=0, vmax=3)
        if last and last[0] == name:
            mark = (
                {"marker": "o", "color": "white"} if last[3] else {"marker": "X", "color": "black"}
            )
            ax.plot(last[2], last[1], markersize=13, linestyle="", **mark)
        ax.set_xticks(np.arange(-0.5, n), [])
        ax.set_yticks(np.arange(-0.5, n), [])
        ax.tick_params(length=0)
        ax.grid(color="white", linewidth=2)
        ax.set_title(name.upper())
    seen = cache.hits + cache.misses
    said = "" if last is None else f"{last[0].upper()} {'hit' if last[3] else 'miss'}; "
    axes[0].set_xlabel(f"{order}: {said}{cache.misses} misses in {seen} accesses")
    return axes
