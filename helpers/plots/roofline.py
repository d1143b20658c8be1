"""The ceilings' curves; a cache, step by step; the roofline itself is roofline_html's."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from helpers.plots.roofline_html import interactive
from helpers.plots.roofline_sketches import groups, phases, reuse, waiting
from helpers.plots.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    VERMILION,
    colour,
    ensure_axes,
    marker,
    note,
    panels,
    plain_ticks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from helpers.roofline.cache import Cache

PAPER = {"facecolor": "white", "edgecolor": "none", "pad": 1}  # under text that a line may cross

__all__ = [
    "bandwidths", "cache_step", "groups", "interactive", "latency", "misses", "phases", "reuse",
    "tiles", "waiting",
]  # fmt: skip


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
    begin = sizes[0]
    upright = [*(one["capacity"] for one in found), *(one["size"] for one in reported)]
    for i, one in enumerate(found):
        end = min(one["capacity"], sizes[-1])
        if math.isfinite(one["capacity"]):
            label = "found in the curve" if i == 0 else None
            ax.axvline(end / 1024, color=VERMILION, linewidth=1.5, label=label)
        said = f"{one['seconds'] * 1e9:.{int(one['seconds'] < 1e-8)}f} ns"
        middle = _beside(math.sqrt(begin * end), upright)
        across = np.log(middle) + np.linspace(-0.45, 0.45)  # the text's width
        under = np.exp(np.interp(across, np.log(sizes), np.log(times)))
        at, shift, look = max(*under, one["seconds"]), (0, 10), {"ha": "center"}
        crowded = any(end < x < 2.3 * end for x in upright)
        if math.isfinite(one["capacity"]) and end < 2.5 * begin and not crowded:
            # narrower than its text, which then stands where the curve has left its height
            middle, at, shift, look = end, one["seconds"], (6, 0), {"ha": "left", "va": "center"}
        note(ax, said, (middle / 1024, 1e9 * at), shift, color=BLUE, bbox=PAPER, **look)
        begin = end
    for i, one in enumerate(reported):
        label = "reported by the system" if i == 0 else None
        ax.axvline(one["size"] / 1024, color=GREEN, linestyle=":", linewidth=2.5, label=label)
    ax.set(xlabel="working set", ylabel="time of a load, ns", yscale="log")
    ax.set_xscale("log", base=2)
    powers = range(round(math.log2(max(sizes[-1] / 1024, 2))) + 1)
    ticks = [f"{2**k} KiB" if k < 10 else f"{2 ** (k - 10)} MiB" for k in powers[::2]]
    ax.set_xticks([2**k for k in powers[::2]], ticks)
    ax.set_xticks([2**k for k in powers[1::2]], [""] * len(powers[1::2]), minor=True)
    ax.set_xlim(0.8 * sizes[0] / 1024, 1.25 * sizes[-1] / 1024)
    ax.set_ylim(top=2 * max(times) * 1e9)  # room for the last plateau's time
    plain_ticks(ax.yaxis)
    ax.set_title("Latency of a load")
    ax.figure.set_label(
        "Each level's time, and the working set at which it ends, as a program finds them"
        if found
        else "The working set outgrows a cache or the TLB at each step"
    )
    if found or reported:  # beside the title: elsewhere the curve or a line crosses it
        ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=3, fontsize=11, columnspacing=1)
    return ax


def _beside(middle: float, upright: Sequence[float]) -> float:
    """Return the size next to the middle of a plateau whose text no upright line crosses."""
    shifts = sorted((k / 4 for k in range(-4, 5)), key=abs)  # in octaves, as the axis is
    free = (
        middle * 2**k for k in shifts if all(abs(math.log2(x / middle) - k) > 0.7 for x in upright)
    )
    return next(free, middle)


def bandwidths(rows: Sequence[Mapping]) -> Axes:
    """Draw each loop's bandwidth at each level, GB/s, with one thread and with the most.

    ``rows`` have ``level``, ``kind``, ``threads`` and ``rate`` in bytes/s.
    """
    ax = ensure_axes()
    ax.figure.set_label("Bandwidth of each cache and of memory, with one thread and with more")
    ax.set(ylabel="GB/s", title="Bandwidth")
    levels = list(dict.fromkeys(row["level"] for row in rows))
    most = max((row["threads"] for row in rows), default=1)
    for i, kind in enumerate(kinds := list(dict.fromkeys(row["kind"] for row in rows))):
        named = False
        for k, level in enumerate(levels):
            rates = {
                row["threads"]: row["rate"] / 1e9
                for row in rows
                if (row["level"], row["kind"]) == (level, kind) and row["threads"] in (1, most)
            }
            x = k + 0.22 * (i - (len(kinds) - 1) / 2)
            ax.plot([x] * len(rates), list(rates.values()), color=colour(i), marker="")
            for threads, rate in rates.items():
                up = rate == max(rates.values())
                ax.plot(
                    x, rate, marker(i), color=colour(i), markersize=10, markeredgewidth=2.5,
                    markerfacecolor=colour(i) if threads == most else "white",
                    label=None if named or threads != most else kind,
                )  # fmt: skip
                named = named or threads == most
                shift, va = (10, "bottom") if up else (-10, "top")
                note(ax, f"{rate:.0f}", (x, rate), (0, shift), ha="center", va=va)
    if not levels:
        said = "not measured: the machine was too busy"
        ax.text(0.5, 0.5, said, transform=ax.transAxes, ha="center")
        return ax
    if most > 1:
        ax.set_title(f"Bandwidth. Hollow: 1 thread; filled: {most} threads")
    ax.set_yscale("log")
    ax.margins(y=0.15)
    plain_ticks(ax.yaxis)
    ax.set_xticks(range(len(levels)), levels)
    ax.set_xlim(-0.5, len(levels) - 0.5)
    ax.grid(axis="x", visible=False)
    ax.legend(loc="upper right", ncols=len(kinds))
    return ax


def tiles(
    sides: Sequence[int], rates: Sequence[float], alone: float, yours: Mapping[str, int]
) -> Axes:
    """Draw the speed of blocked products, flop/s, against the side of their tiles.

    ``alone`` is the speed with a single tile; ``yours`` has the reader's side for each cache.
    """
    ax = ensure_axes()
    ax.figure.set_label("Speed of a blocked product by the side of its tiles")
    ax.plot(sides, [rate / 1e9 for rate in rates], color=BLUE)
    ax.axhline(alone / 1e9, color=GREY, linestyle="--", marker="")
    note(ax, "a single\ntile: no\nblocks", (1, alone / 1e9), (6, 0), ha="left", va="center",
         xycoords=("axes fraction", "data"))  # fmt: skip
    for (cache, side), ha, across in zip(yours.items(), ("right", "left"), (6, -6), strict=False):
        ax.axvline(side, color=VERMILION, linestyle=":", linewidth=2.5)
        note(ax, f"your tile for {cache}: {side}", (side, 1), (across, 4), ha=ha,
             xycoords=("data", "axes fraction"), color=VERMILION)  # fmt: skip
    ax.set(xlabel="side of a tile, elements", ylabel="Gflop/s", xscale="log", ylim=(0, None))
    ax.set_xticks(sides, list(map(str, sides)))
    ax.set_xticks([], minor=True)
    return ax


def misses(counts: Mapping[str, Mapping[str, int]]) -> Axes:
    """Draw the simulated misses of each loop order, stacked by matrix ``"a"``, ``"b"``, ``"c"``.

    Neighbours with the same inner loop, the last letter of an order, stand together.
    """
    ax = ensure_axes()
    orders, inner = list(counts), [order[-1] for order in counts]
    changes = np.cumsum([0, *(one != other for one, other in itertools.pairwise(inner))])
    places, base = np.arange(len(orders)) + 0.5 * changes, np.zeros(len(orders))
    for name, fill in (("a", ORANGE), ("b", GREEN), ("c", BLUE)):
        values = np.array([one[name] for one in counts.values()], dtype=float)
        ax.bar(places, values, bottom=base, color=fill, label=f"of {name.upper()}",
               hatch={"a": "", "b": "//", "c": ".."}[name], edgecolor="white")  # fmt: skip
        base += values
    for change in np.unique(changes):
        letter, middle = inner[int(np.argmax(changes == change))], places[changes == change].mean()
        note(ax, f"inner loop {letter}", (middle, 0), (0, -26), ha="center", va="top",
             xycoords=("data", "axes fraction"))  # fmt: skip
    ax.set(ylabel="misses", title="Misses of each loop order")
    ax.figure.set_label("Misses of a small simulated cache, by the matrix that it missed")
    ax.set_xticks(places, orders)
    ax.legend()
    ax.grid(axis="x", visible=False)
    return ax


LETTERS = ("ik", "kj", "ij")  # of the loops over rows and columns of A, B and C


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
    for ax, (number, name), (row, column) in zip(axes, enumerate("abc"), LETTERS, strict=True):
        base = number * n * n * 4
        addresses = base + 4 * np.arange(n * n).reshape(n, n)
        picture = np.isin(addresses // cache.line, list(cache.lines)).astype(int)
        if last and last[0] == name:
            picture[last[1], last[2]] = 2 if last[3] else 3
        ax.imshow(picture, cmap=ListedColormap(["#EEEEEE", BLUE, BLUE, ORANGE]), vmin=0, vmax=3)
        if last and last[0] == name:
            marker, shade = ("o", "white") if last[3] else ("X", "black")
            ax.plot(last[2], last[1], marker, color=shade, markersize=13, linestyle="")
        ax.set_xticks(np.arange(-0.5, n), [])
        ax.set_yticks(np.arange(-0.5, n), [])
        ax.tick_params(length=0)
        ax.grid(color="white", linewidth=2)
        ax.set_title(f"{name.upper()},  {column} →")
        ax.set_ylabel(f"← {row}")  # turned, the arrow points down
    seen = cache.hits + cache.misses
    said = "" if last is None else f"{'hit' if last[3] else 'miss'} in {last[0].upper()}; "
    said = f"{order}: {said}{cache.misses} misses in {seen} accesses"
    axes[0].set_xlabel(said, loc="left")  # in the middle, a long one would be cut off
    return axes
