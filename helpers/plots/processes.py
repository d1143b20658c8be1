"""A drawing of the processes that a notebook works with, and the cores that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.plots import style
from helpers.plots.shapes import arrow, box

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DARK = "#595959"  # grey that is read from the back row, on white and under white


def processes(cores: int, ranks: int = 4, ax: Axes | None = None) -> Axes:
    """Draw the notebook's kernel, its ranks and the machine's cores.

    Parameters
    ----------
    cores : int
        How many; above 8 the row is cut off with an ellipsis.
    ranks : int
        How many.
    ax : matplotlib.axes.Axes, optional
        Where to draw: by default in a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        What was drawn in.

    Raises
    ------
    ValueError
        If either is below 1.
    """
    if cores < 1 or ranks < 1:
        raise ValueError(f"processes expects cores >= 1 and ranks >= 1; got {cores} and {ranks}")
    ax = style.ensure_axes(ax, figsize=(9, 3.8))
    columns = [1 + 2.2 * rank for rank in range(ranks)]
    middle = sum(columns) / ranks
    box(ax, middle, 3.0, 3.6, 0.7, "this notebook (kernel)", colour=DARK)
    for rank, x in enumerate(columns):
        arrow(ax, (middle + (x - middle) * 0.3, 2.6), (x, 1.85), DARK, "<->")
        box(ax, x, 1.5, 1.3, 0.7, f"rank {rank}", colour=style.colour(rank))
        arrow(ax, (x, 0.72), (x, 1.17), style.BLACK, "<->")
    ax.plot(
        (columns[0], columns[-1]), (0.72, 0.72), "-", marker="", color=style.BLACK, linewidth=1.6
    )
    ax.text(columns[-1] + 0.95, 0.95, "messages (MPI),\nany rank to any", va="center")
    ax.text(columns[-1] + 0.95, 2.25, "cells and\ntheir output", va="center", color=DARK)

    shown = min(cores, 8)
    width = (columns[-1] - columns[0] + 1.3) / shown
    for core in range(shown):
        x = columns[0] - 0.65 + (core + 0.5) * width
        last = core == shown - 1 and shown < cores
        name = "…" if last else f"core {core}"
        box(ax, x, 0.0, 0.9 * width, 0.7, name, colour=style.BLACK, fill=False)
    ax.text(columns[-1] + 0.95, -0.1, "run all\nof these", va="center")
    ax.set(xlim=(columns[0] - 1, columns[-1] + 2.6), ylim=(-0.6, 3.6))
    ax.set_axis_off()
    return ax
