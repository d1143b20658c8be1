"""Sketches beside the roofline, of what is counted and not measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from helpers.plots.style import (
    BLUE,
    EIGHT,
    GREEN,
    GREY,
    ORANGE,
    arrow,
    ensure_axes,
    ink,
    note,
    panels,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def reuse(side: int, registers: tuple[int, int]) -> Sequence[Axes]:
    """Draw which numbers of C = AB a block keeps in a cache, and a register tile in registers.

    ``side`` is that of the block's tiles; ``registers`` has the rows and columns of a register
    tile. Numbers are of fp32.
    """
    axes, (rows, columns) = panels(2, figsize=(10.5, 5.3)), registers
    axes[0].figure.set_label(
        "What stays close to the processor: a block's tiles in a cache, a register tile of C"
    )
    whole, third, wide = 24, 8, (24 - columns) / 2  # numbers along a matrix; where a tile begins
    one = f"{4 * side**2 / 1024:.3g} KiB"
    tile = (third, third, third, third)
    _product(
        axes[0], "A block: one tile of each matrix, in a cache", whole,
        {"A": (*tile, f"{one}\nstays"), "B": (*tile, one), "C": (*tile, one)},
        f"$t = {side}$, 4 bytes a number:\n4 · {side} · {side} = {one} a tile,\n"
        f"{12 * side**2 / 1024:.3g} KiB for three.\n\nEach number serves\n{side} multiply-adds.",
    )  # fmt: skip
    _product(
        axes[1], "A register tile: a piece of C, in registers", whole,
        {"A": (third, third, 1, rows, ""), "B": (wide, third, columns, 1, ""),
         "C": (wide, third, columns, rows, f"{4 * rows * columns} bytes\nstay")},
        f"In each step of $k$:\n{rows} numbers of A, {4 * rows} bytes,\n"
        f"each for {columns} sums;\n{columns} numbers of B, {4 * columns} bytes,\n"
        f"each for {rows} sums.",
    )  # fmt: skip
    cuts = np.array([third, 2 * third])
    for x, y in ((0, 0), (1, 0), (1, 1)):  # the other tiles
        left, low = _corner(whole, x, y)
        axes[0].hlines(low + cuts, left, left + whole, color=GREY, linewidth=0.8)
        axes[0].vlines(left + cuts, low, low + whole, color=GREY, linewidth=0.8)
    _shade(axes[1], whole, (0, 0), (0, third, whole, rows), ORANGE, 0.35)
    _shade(axes[1], whole, (1, 1), (wide, 0, columns, whole), GREEN, 0.35)
    for y in (0, 1):  # B's and C's next tiles lie to the right
        _next(axes[0], whole, (1, y), (2 * third, 1.5 * third), (5, 0))
    _next(axes[1], whole, (0, 0), (third + 1, third + rows / 2), (5, 0))
    _next(axes[1], whole, (1, 1), (whole / 2, third + 1), (0, 5))
    return axes


def _product(ax: Axes, title: str, whole: int, held: Mapping[str, tuple], words: str) -> None:
    """Draw A left of C and B above C, what is held of each, and words where no matrix is."""
    for (letter, (*part, said)), at, fill in zip(
        held.items(), ((0, 0), (1, 1), (1, 0)), (ORANGE, GREEN, BLUE), strict=True
    ):
        _shade(ax, whole, at, (0, 0, whole, whole), "none")
        x, y = _shade(ax, whole, at, part, fill)
        ax.text(x, y, said, ha="center", va="center", fontsize=12, color=ink(fill))
        left, low = _corner(whole, *at)
        ax.text(left + whole - 1, low + 1, f"${letter}$", ha="right", va="bottom", fontsize=18)
    end = _corner(whole, 1, 1)[0] + whole
    ax.text(0, end, words, ha="left", va="top", linespacing=1.4)
    ax.set_title(title, fontsize=14)
    ax.set(xlim=(-0.5, end + 0.5), ylim=(-0.5, end + 0.5), aspect="equal")
    ax.axis("off")


def _corner(whole: int, right: int, up: int) -> tuple[int, int]:
    """Return the lower left corner of one of the matrices."""
    return right * (whole + 3), up * (whole + 3)


def _shade(
    ax: Axes, whole: int, at: tuple[int, int], part: Sequence[float], fill: str, alpha: float = 1
) -> tuple[float, float]:
    """Draw a part of a matrix (columns before, rows above, width, height); return its middle."""
    from matplotlib.patches import Rectangle

    (left, low), (before, above, wide, high) = _corner(whole, *at), part
    x, y = left + before, low + whole - above - high
    edge = GREY if fill == "none" else "white" if alpha == 1 else "none"  # or frames have gaps
    ax.add_patch(Rectangle((x, y), wide, high, fc=fill, ec=edge, lw=1.5, alpha=alpha))
    return x + wide / 2, y + high / 2


def _next(
    ax: Axes, whole: int, at: tuple[int, int], begin: tuple[float, float], way: tuple[int, int]
) -> None:
    """Draw an arrow from what is held of a matrix to what is held next, x and y downwards."""
    left, low = _corner(whole, *at)
    x, y = left + begin[0], low + whole - begin[1]
    arrow(ax, (x, y), (x + way[0], y - way[1]), "black", width=2)


def phases(width: int, tokens: int, requests: Sequence[int]) -> Axes:
    """Draw the bytes that a transformer block moves in prefill, and in a step of decode.

    ``width`` is that of the block, with 12 width² weights, and ``tokens`` are those of a prompt;
    ``requests`` has the numbers of requests that decode a token at a time. Numbers are of fp32.
    """
    ax = ensure_axes(figsize=(9, 3.6))
    ax.figure.set_label("Megabytes that prefill and decode move, and how many tokens share them")
    weights, cache = 48 * width**2 / 1e6, 8 * tokens * width / 1e6
    rows = [(f"prefill, {tokens} tokens", 1, tokens)]
    rows += [(f"decode, B = {many}", many, many) for many in requests]
    for y, (_, many, made) in enumerate(rows):
        ax.barh(y, weights, color=BLUE, label=None if y else "weights")
        left = weights + cache * np.arange(many)
        label = None if y else "keys and values of one request"
        ax.barh([y] * many, cache, left=left, color=ORANGE, edgecolor="white", label=label)
        said = f"{(weights + many * cache) / made:.2g} MB a token"
        note(ax, said, (weights + many * cache, y), (8, 0), ha="left", va="center")
    ax.set(xlabel="MB moved in one step", xlim=(0, 1.3 * (weights + max(requests) * cache)))
    ax.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    ax.invert_yaxis()
    ax.grid(axis="y", visible=False)
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
    return ax


def waiting(additions: int, cycles: int) -> Sequence[Axes]:
    """Draw when additions of ``cycles`` each run: into one sum, and into as many sums.

    One addition can start in each cycle; into one sum, each waits for the result before it.
    """
    axes = panels(2, figsize=(10, 3.4), sharex=True, sharey=True)
    axes[0].figure.set_label(
        "Additions into one sum wait for one another, and additions into many sums overlap"
    )
    for ax, apart, name in zip(axes, (cycles, 1), ("one sum", f"{additions} sums"), strict=True):
        ends = (additions - 1) * apart + cycles
        for k in range(additions):
            shade = EIGHT[0 if apart == cycles else k % 8]
            ax.barh(k + 1, cycles, left=k * apart, color=shade, edgecolor="white", height=0.8)
        ax.axvline(ends, color=GREY, linestyle="--", marker="")
        side, ha = (-6, "right") if apart == cycles else (6, "left")
        note(ax, f"all done after\n{ends} cycles", (ends, 2), (side, 0), ha=ha, va="center")
        ax.set(title=f"{additions} additions into {name}", xlabel="clock cycle")
        ax.grid(axis="y", visible=False)
    axes[0].set(ylabel="addition", yticks=range(1, additions + 1), xlim=(0, None))
    axes[0].invert_yaxis()
    return axes


def groups(channels: int, count: int) -> Sequence[Axes]:
    """Draw which input channels each output channel reads, and a shuffle of ``count`` groups.

    A row of a square is an output channel, a column an input channel; each group has a colour.
    """
    axes = panels(4, figsize=(10.5, 3.3), gridspec_kw={"width_ratios": [*3 * [channels], 5]})
    axes[0].figure.set_label(
        "An output channel reads all input channels, those of its group, or only its own; "
        "a shuffle interleaves the groups"
    )
    names = ("1 group", f"{count} groups", f"depthwise: {channels} groups")
    for ax, parts, name in zip(axes, (1, count, channels), names, strict=False):
        wide = channels // parts
        for row, column in np.ndindex(channels, channels):
            reads = row // wide == column // wide
            _square(ax, column, row, EIGHT[row // wide % 8] if reads else "none")
        ax.set_title(name, fontsize=14)
        ax.set_xlabel("input channel", fontsize=13)
    axes[0].set_ylabel("output channel", fontsize=13)
    wide = channels // count
    for k in range(channels):
        to = k % wide * count + k // wide
        _square(axes[3], 0, k, EIGHT[k // wide % 8])
        _square(axes[3], 4, to, EIGHT[k // wide % 8])
        arrow(axes[3], (1.1, k + 0.5), (3.9, to + 0.5), GREY, width=1.2)
    axes[3].set_title("shuffle", fontsize=14)
    axes[3].set_xlabel("before, after", fontsize=13)
    for ax in axes:
        ax.set(xlim=(-0.1, (channels if ax is not axes[3] else 4.9) + 0.1))
        ax.set(ylim=(channels + 0.1, -0.1), aspect="equal", xticks=[], yticks=[])
        ax.grid(visible=False)
        ax.spines[:].set_visible(False)
    return axes


def _square(ax: Axes, x: float, y: float, fill: str) -> None:
    """Draw the unit square whose upper left corner is there."""
    from matplotlib.patches import Rectangle

    ax.add_patch(Rectangle((x, y), 1, 1, fc=fill, ec=GREY if fill == "none" else "white", lw=0.8))
