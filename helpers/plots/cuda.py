"""Pictures of kernels: images, tiles of a product and of attention, passes of a warp."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from helpers.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from helpers.cuda.warps import WarpRecord


def images(named: Mapping[str, np.ndarray], caption: str = "") -> Sequence[Axes]:
    """Show images of values from 0 to 1 side by side, grey (H, W) or coloured (H, W, 3)."""
    # as wide as a notebook shows without shrinking the titles, and one alone no higher than a page
    axes = style.panels(len(named), figsize=(10.5, 10.5 / max(len(named), 3)))
    for one, (name, image) in zip(axes, named.items(), strict=True):
        one.imshow(image, cmap="gray", vmin=0, vmax=1)
        one.set_title(name)
        one.axis("off")
    axes[0].figure.set_label(caption)
    return axes


def product_blocks(blocks: Mapping[str, tuple[int, int]], side: int, step: int) -> Sequence[Axes]:
    """Draw what one block of threads reads in C = AB: rows of A, columns of B, and a step's tiles.

    ``blocks`` has under a name the rows and columns of outputs that a block makes; matrices have
    ``side`` rows and columns, and tiles are ``step`` long.
    """
    from matplotlib.patches import Rectangle

    axes = style.panels(len(blocks), figsize=(5.2 * len(blocks), 4.6))
    right = side * 9 / 8  # of A; B and C stand there
    for ax, (name, (high, wide)) in zip(axes, blocks.items(), strict=True):
        top = right + side
        for x, y, letter in ((0, 0, "A"), (right, right, "B"), (right, 0, "C")):
            ax.add_patch(Rectangle((x, y), side, side, fc="none", ec=style.GREY, lw=1.5))
            ax.text(top + 3 if x else -3, y + side / 4, f"${letter}$", fontsize=20,
                    ha="left" if x else "right", va="center")  # fmt: skip
        for x, y, w, h, shade, alpha in (  # the block is the first of C's
            (0, side - high, side, high, style.ORANGE, 0.55),
            (step, side - high, step, high, style.ORANGE, 1),
            (right, right, wide, side, style.GREEN, 0.55),
            (right, top - 2 * step, wide, step, style.GREEN, 1),
            (right, side - high, wide, high, style.BLUE, 1),
        ):
            ax.add_patch(Rectangle((x, y), w, h, fc=shade, alpha=alpha, ec="white"))
        for x, y, across, down, shade in (  # the tiles of the second step; the next ones lie ahead
            (1.5 * step, side - high / 2, 1, 0, style.ORANGE),
            (right + wide / 2, top - 1.5 * step, 0, 1, style.GREEN),
        ):
            ax.text(x, y, "tile", ha="center", va="center", color=style.ink(shade))
            _ahead(ax, x + step * across * 0.7, y - step * down * 0.7, across, down, 1.6 * step)
        ax.text(side / 2, -2, "$k$", ha="center", va="top", fontsize=16)
        ax.text(right - 2, right + side / 2, "$k$", ha="right", va="center", fontsize=16)
        ax.text(-3, side - high / 2, f"{high}\nrows", ha="right", va="center")
        ax.text(right + wide / 2, top + 1.5, f"{wide} columns", ha="center", va="bottom")
        ax.set_title(name)
        ax.set(xlim=(-18, top + 10), ylim=(-8, top + 8), aspect="equal")
        ax.axis("off")
    axes[0].figure.set_label(
        "What a block reads for its outputs (blue): rows of A, columns of B; "
        "a step loads two tiles, and the next ones follow the arrows"
        if len(blocks) == 1
        else "For equally many outputs (blue), a square block loads fewer numbers for each k"
    )
    return axes


def _ahead(ax: Axes, x: float, y: float, across: float, down: float, length: float) -> None:
    """Draw an arrow from a tile to where the next steps' tiles lie."""
    end = (x + across * length, y - down * length)
    ax.annotate("", end, (x, y), arrowprops={"arrowstyle": "->", "lw": 2})


def attention_tile(positions: int, numbers: int, tile: int) -> Axes:
    """Draw what a block of attention holds in one step: queries, a tile of scores, keys, values.

    ``numbers`` is the length of a query, a key and a value; the tile has ``tile`` queries and keys.
    """
    from matplotlib.patches import Rectangle

    n, d = positions, numbers
    ax = style.ensure_axes(figsize=(10, 4.9))
    gap, row, step = n / 7, n - 2 * tile, 2 * tile  # the second block of queries, the third of keys
    wide = d + gap  # from a matrix's left edge to the next one's
    keys, values, out = n + gap, wide + n + gap, 2 * wide + n + gap
    for x, y, w, h, shade, left, low, name, size in (
        (0, 0, d, n, style.ORANGE, 0, row, "queries stay", f"{tile} queries"),
        (wide, keys, n, d, style.GREEN, wide + step, keys, "keys move on", f"{tile}\nkeys"),
        (values, 0, d, n, style.GREEN, values, n - step - tile, "values move on",
         f"{tile} values"),
        (out, 0, d, n, style.PURPLE, out, row, "outputs stay", f"{tile} outputs"),
        (wide, 0, n, n, style.BLUE, wide + step, row, "scores: never stored", f"{tile}\n× {tile}"),
    ):  # fmt: skip
        line = "--" if name.startswith("scores") else "-"
        ax.add_patch(Rectangle((x, y), w, h, fc="none", ec=style.GREY, lw=1.5, ls=line))
        held = [tile if side == n else side for side in (w, h)]
        ax.add_patch(Rectangle((left, low), *held, fc=shade, ec="white"))
        ax.text(left + held[0] / 2, low + held[1] / 2, size, ha="center", va="center",
                fontsize=13, color=style.ink(shade))  # fmt: skip
        if shade == style.GREEN:  # keys lie side by side, values one below the other
            down = h > w
            x1, y1 = (left + held[0] / 2, low) if down else (left + held[0], low + held[1] / 2)
            _ahead(ax, x1, y1, not down, down, 0.9 * tile)
        place = {"y": y + h + 2, "va": "bottom"} if y else {"y": -2, "va": "top"}
        ax.text(x + w / 2, s=name, ha="center", fontsize=14, **place)
    ax.text(d / 2, n + 2, f"$D = {d}$", ha="center", va="bottom")
    ax.text(wide - 2, keys + d / 2, f"$D = {d}$", ha="right", va="center")
    ax.text(-2, n / 2, "$n$", ha="right", va="center")
    ax.text(wide + n / 2, n + 2, "$n$", ha="center", va="bottom")
    ax.set(xlim=(-7, out + d + 1), ylim=(-10, n + gap + d + 9), aspect="equal")
    ax.axis("off")
    ax.figure.set_label("What a block of threads holds in one step of attention, in colour")
    return ax


HATCHES = ("", "///", "...", "xxx", "\\\\\\", "ooo", "+++", "---")


def warp_passes(record: WarpRecord) -> Axes:
    """Draw which lanes of the first warp work in each pass, a colour and a hatch for each line."""
    shown = record.select()
    shown = shown[(shown["block"] == 0) & (shown["warp"] == 0)]
    ax = style.ensure_axes(figsize=(9, 3.5))
    text, count = record.source.splitlines(), len(shown)
    for number, line in enumerate(dict.fromkeys(shown["line"].tolist())):  # as executed
        boxes = []  # of a pass: its place, the first lane of a run, the run's length
        for place in np.flatnonzero(shown["line"] == line):
            bits = int(shown["lanes"][place])
            lanes = np.array([0, *(bits >> lane & 1 for lane in range(32)), 0])
            begin, end = (np.flatnonzero(np.diff(lanes) == step) for step in (1, -1))
            boxes += [(place + 1, *run) for run in zip(begin, end - begin, strict=True)]
        places, first, length = np.array(boxes).T
        ax.bar(places, length, bottom=first - 0.5, width=0.9, fc=style.colour(number),
               ec="white", lw=0.5, hatch=HATCHES[number % len(HATCHES)],
               label=f"line {line}: {text[line - 1].strip()}")  # fmt: skip
    ax.axhspan(-0.5, 31.5, 0, 1, fc="#e4e4e4", ec=style.GREY, label="idle", zorder=0)
    idle = 1 - np.unpackbits(shown["lanes"].copy().view(np.uint8)).sum() / (32 * count)
    ax.set(
        xlabel="pass of the warp",
        ylabel="lane of the warp",
        xlim=(0.5, count + 0.5),
        ylim=(-0.5, 31.5),
        title=f"{count} passes, {idle:.0%} of the lanes idle",
    )
    ax.set_yticks((0, 8, 16, 24, 31))
    ax.set_xticks(range(1, count + 1, max(1, count // 18)))
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.3),
              handlelength=1.5, prop={"family": "monospace", "size": 12})  # fmt: skip
    ax.grid(False)
    ax.figure.set_label("Which lanes of the first warp work in each of its passes")
    return ax
