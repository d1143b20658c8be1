"""Boxes and arrows: what a drawing is made of that is not a plot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from helpers.plots.style import GREY, ink

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def box(
    ax: Axes,
    x: float,
    y: float,
    width: float,
    height: float,
    text: str = "",
    *,
    colour: str,
    shade: str | None = None,
    fontsize: float | None = None,
) -> None:
    """Draw a box with rounded corners around its middle, and a text in it, in data coordinates.

    The text is black or white, whichever reads better, unless ``shade`` says its colour.
    """
    from matplotlib.patches import FancyBboxPatch

    ax.add_patch(
        FancyBboxPatch(
            (x - width / 2, y - height / 2), width, height,
            boxstyle="round,pad=0,rounding_size=0.1", facecolor=colour, edgecolor=colour,
            linewidth=1.5,
        )
    )  # fmt: skip
    ax.text(x, y, text, ha="center", va="center", color=shade or ink(colour), fontsize=fontsize)


def arrow(
    ax: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    colour: str = GREY,
    ends: str = "->",
    width: float = 1.6,
    **more: Any,
) -> None:
    """Draw an arrow from one point to another; ``ends`` is matplotlib's arrow style."""
    look = {"arrowstyle": ends, "color": colour, "linewidth": width, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", end, start, arrowprops=look | more)
