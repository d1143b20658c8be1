"""Pictures of A5: a loop and its gradient; where some of attention's queries meet some keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.plots.style import BLACK, BLUE, GREEN, GREY, ORANGE, arrow, ensure_axes, ink, legible

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

    for name, x, width in (("$Q$", 0.0, 0.8), ("$g$", 1.2, 0.8), ("$O$", 2.4, 0.8),
                           ("log\nsum", 3.8, 0.25)):  # fmt: skip
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
    for x, y, text, shade in (
        (right, 0.98, "some keys;\nadds to dK and dV", ORANGE),
        (right, row + part / 2, "this block of $A$:\ncomputed again,\nused, discarded", GREEN),
        (right, top + 0.8 * SIDE, "the whole table\nis never stored", BLACK),
        (-0.1, 0.98, "some queries;\nadds to dQ", BLUE),
    ):
        ax.text(x + 0.1, y, text, color=legible(shade), ha="left", va="center")
    return ax


def scan_and_back(steps: int = 3) -> Axes:
    """Draw a scan, the states that it keeps, and below them the scan that is its gradient."""
    ax = ensure_axes(figsize=(9, 3.7))
    ax.set_axis_off()
    ax.set(xlim=(-1.5, 3 * steps + 2), ylim=(5.1, -1.1))
    ax.figure.set_label("A scan keeps its states; its gradient is a scan back that reads them")
    forward, kept, back = 0.0, 2.0, 4.0  # rows

    def box(x: float, y: float, text: str, shade: str = "white") -> None:
        look = {"facecolor": shade, "edgecolor": BLACK, "boxstyle": "square,pad=0.4"}
        ax.text(x, y, text, color=ink(shade), ha="center", va="center", bbox=look, zorder=5)

    for y, text, shade in ((forward, "forward\nscan", BLUE), (kept, "states\nkept", BLACK),
                           (back, "scan\nback", ORANGE)):  # fmt: skip
        ax.text(-1.5, y, text, color=legible(shade), ha="left", va="center")
    for t in range(1, steps + 1):
        x, state = 3.0 * t - 1, 3.0 * t - 2.5  # of both steps; of the state before them
        box(x, forward, f"step {t}", BLUE)
        box(state, kept, f"$h_{t - 1}$")
        box(x, back, f"step {t}", ORANGE)
        for end, tail in ((forward - 0.35, -1), (back + 0.35, 5)):
            arrow(ax, (x, tail), (x, end), BLACK)
            ax.text(x + 0.12, tail, f"$x_{t}$", ha="left", va="center")
        arrow(ax, (state - (0.5 if t == 1 else 1), forward), (x - 0.55, forward), BLUE, width=2)
        arrow(ax, (state, forward), (state, kept - 0.4), BLACK)
        arrow(ax, (state + 0.3, kept + 0.3), (x - 0.2, back - 0.4), BLACK)
        arrow(ax, (x - 0.5, back), (state - (0.5 if t == 1 else 0.95), back), ORANGE, width=2)
        ax.text(state, back + 0.2, f"dh$_{t - 1}$, dU", ha="center", va="top")
    end = 3.0 * steps + 1.5
    arrow(ax, (end - 2, forward), (end - 0.4, forward), BLUE, width=2)
    arrow(ax, (end - 0.4, back), (end - 1.95, back), ORANGE, width=2)
    ax.text(end - 1.1, back + 0.2, "dU = 0", ha="center", va="top")
    for y, text in ((forward, f"$h_{steps}$"), (kept, "$L$"), (back, f"dh$_{steps}$")):
        box(end, y, text)
    for y in (forward, kept):
        arrow(ax, (end, y + 0.35), (end, y + 1.6), BLACK)
    return ax
