"""Pictures of A5: the block in which some of attention's queries meet some of its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.plots.style import BLACK, BLUE, GREEN, GREY, ORANGE, arrow, ensure_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLOCKS, SIDE = 8, 6.0  # blocks along a side of the table, its length
QUERIES, KEYS = 2, 5  # the block that is drawn


def attention_block() -> Axes:
    """Draw attention's table, which rows of which arrays meet in one block, and what is kept."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle

    ax = ensure_axes(figsize=(9, 4.7))
    ax.set_axis_off()
    ax.set(xlim=(-0.4, 15.2), ylim=(8.6, -0.4), aspect="equal")
    ax.figure.set_label("One block of attention's table, and the rows that meet in it")
    left, top, part = 5.3, 2.4, SIDE / BLOCKS
    row, column = top + QUERIES * part, left + KEYS * part

    def box(x: float, y: float, width: float, height: float, **look: object) -> None:
        ax.add_patch(Rectangle((x, y), width, height, **{"edgecolor": BLACK, **look}))  # type: ignore[arg-type]

    for name, x, width in (("$Q$", 0.5, 0.8), ("$g$", 1.8, 0.8), ("$O$", 3.1, 0.8),
                           ("log\nsum", 4.4, 0.25)):  # fmt: skip
        box(x, top, width, SIDE, facecolor="white")
        box(x, row, width, part, facecolor=BLUE)
        ax.text(x + width / 2, top - 0.15, name, ha="center", va="bottom", linespacing=0.9)
    for name, y in (("$K$", 0.0), ("$V$", 1.2)):
        box(left, y, SIDE, 0.8, facecolor="white")
        box(column, y, part, 0.8, facecolor=ORANGE)
        ax.text(left - 0.15, y + 0.4, name, ha="right", va="center")
    box(left, top, SIDE, SIDE, facecolor="#f2f2f2", linestyle="--", edgecolor=GREY)
    for k in range(1, BLOCKS):
        line = {"color": GREY, "linewidth": 0.6, "linestyle": ":"}
        ax.add_line(Line2D([left + k * part] * 2, [top, top + SIDE], **line))
        ax.add_line(Line2D([left, left + SIDE], [top + k * part] * 2, **line))
    box(column, row, part, part, facecolor=GREEN)
    arrow(ax, (left, row + part / 2), (column, row + part / 2), BLUE, "-|>", 2)
    arrow(ax, (column + part / 2, top), (column + part / 2, row), ORANGE, "-|>", 2)
    right = left + SIDE + 0.4
    arrow(ax, (right, row + part / 2), (column + part, row + part / 2), BLACK)
    for y, text in ((0.98, "some keys;\nadds to dK and dV"),
                    (row + part / 2, "this block of $A$:\ncomputed again,\nused, discarded"),
                    (top + 0.8 * SIDE, "the whole table\nis never stored")):  # fmt: skip
        ax.text(right + 0.1, y, text, ha="left", va="center")
    ax.text(0.4, 0.6, "some queries;\nadds to dQ", ha="left", va="center")
    return ax
