"""The one style of every figure: colours that everyone can tell apart, text for the back row."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from helpers.plots import description
from helpers.plots.dark import luminance

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    from helpers.timing import Others

# After Okabe & Ito (2008), "Color Universal Design", whose orange and sky blue are too faint on
# white for a line: WCAG 2.2 asks 3 : 1. Darkened alone they would meet their neighbours for the
# colour-blind, so vermilion and purple moved too. Yellow (1.3 : 1) is for fills with a dark edge.
PALETTE = ("#0072B2", "#CF8000", "#009E73", "#B84300", "#B97DAE", "#1C97FB", "#F0E442", "#000000")
BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, YELLOW, BLACK = PALETTE
EIGHT = (*PALETTE[:6], "#8c6d31", "#7b6fd0")  # where up to eight ranks stand side by side
GREY = "#8a8a8a"  # 3.45 : 1 on white; WCAG 2.2 asks 3 of a line
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
SEQUENTIAL = "cividis"  # perceptually uniform, the same to red-green colour blindness


def use() -> None:
    """Make this style matplotlib's for the rest of the session (call once, in the set-up cell).

    In a notebook every figure then carries what it shows in words, for those who do not see it.
    """
    import matplotlib as mpl
    from cycler import cycler

    mpl.rcParams.update(
        {
            "figure.figsize": (9.0, 4.5),  # inches: fills a notebook's width, not its height
            "figure.dpi": 100,
            "figure.constrained_layout.use": True,
            "font.size": 13.0,  # points: read from the back of a classroom at 1280 × 720
            "axes.titlesize": 15.0,
            "axes.titlelocation": "left",
            "axes.labelsize": 13.0,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "grid.color": "#DDDDDD",
            "lines.linewidth": 2.2,
            "lines.markersize": 7.0,
            "legend.frameon": False,
            "image.cmap": SEQUENTIAL,
            "axes.prop_cycle": cycler(color=PALETTE[:6]) + cycler(marker=MARKERS[:6]),
        }
    )
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is not None:
        description.install(shell)


def colour(index: int) -> str:
    """Return the palette's colour for an item (a rank, a method), cycling after six.

    >>> colour(0) == colour(6) == BLUE
    True
    """
    return PALETTE[index % 6]


def marker(index: int) -> str:
    """Return the marker of an item, cycling after eight."""
    return MARKERS[index % 8]


def ink(ground: str | Sequence[float]) -> str:
    """Return the colour of text that is read best on a ground, black or white (contrast ≥ 4.58).

    >>> ink(BLUE), ink(ORANGE), ink((1.0, 1.0, 1.0))
    ('white', '#000000', '#000000')
    """
    light = luminance(ground) + 0.05
    return "white" if 1.05 / light > light / 0.05 else BLACK


def edge(fill: str) -> str:
    """Return the colour of the edge with which a filled box is seen on white.

    White parts the box from its neighbours; black is for a fill that is too faint alone (below 3 :
    1, which WCAG 2.2 asks).

    >>> edge(BLUE), edge(YELLOW)
    ('white', '#000000')
    """
    return "white" if 1.05 / (luminance(fill) + 0.05) >= 3 else BLACK


def legible(shade: str) -> tuple[float, float, float]:
    """Return a colour for text on white: the same, as dark as WCAG 2.2 asks for (contrast 4.5).

    >>> from matplotlib.colors import to_hex
    >>> to_hex(legible(BLUE)), to_hex(legible(VERMILION))
    ('#0072b2', '#b84300')
    """
    from matplotlib.colors import to_rgb

    red, green, blue = to_rgb(shade)
    while 1.05 / (luminance((red, green, blue)) + 0.05) < 4.5:
        red, green, blue = 0.95 * red, 0.95 * green, 0.95 * blue
    return red, green, blue


def arrow(
    ax: Axes,
    start: tuple[float, float],
    end: tuple[float, float],
    colour: str = GREY,
    ends: str = "->",
    width: float = 1.6,
    zorder: float = 3,
    **more: Any,
) -> None:
    """Draw an arrow from one point to another; ``ends`` is matplotlib's arrow style."""
    look = {"arrowstyle": ends, "color": colour, "linewidth": width, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", end, start, arrowprops=look | more, zorder=zorder, annotation_clip=False)


def note(
    ax: Axes, text: str, at: tuple[float, float], shift: tuple[float, float], **more: Any
) -> None:
    """Write a text some points to the right of a place, and above it."""
    ax.annotate(text, at, shift, textcoords="offset points", **more)


def doubt(figure: Figure, others: Others) -> None:
    """Warn over a figure of times if other programs disturbed them."""
    if not others.disturb:
        return
    if not figure.get_label():  # a warning is no name
        figure.set_label(description.title(figure) or description.axes(figure))
    named, warning = figure.get_suptitle(), str(others)
    if figure.get_figwidth() < 9:  # inches, which one line needs
        warning = warning.replace(". ", ".\n")
    text = f"{named}\n{warning}" if named else warning
    figure.suptitle(text, color=VERMILION, fontsize=13)


def plain_ticks(axis: Axis, steps: Sequence[int] = (1, 2, 5)) -> None:
    """Write 1, 2, 5, 10, 20, ... on a logarithmic axis, not powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def few_decades(axis: Axis) -> None:
    """Write 0.2, 0.5, 1, 2 on a logarithmic axis of less than two decades, not 2 × 10⁻¹."""
    low, high = axis.get_view_interval()
    if 1e-4 <= low < high < min(100 * low, 1e5):
        plain_ticks(axis, (1, 2, 5) if high > 10 * low else (1, 2, 3, 5, 7))


def ensure_axes(ax: Axes | None = None, **figure: Any) -> Axes:
    """Return the axes that a plot function was given, or else those of a new figure."""
    import matplotlib.pyplot as plt

    return plt.subplots(**figure)[1] if ax is None else ax


def panels(count: int, **figure: Any) -> Sequence[Axes]:
    """Return the axes of a new figure, side by side."""
    import matplotlib.pyplot as plt

    return plt.subplots(1, count, squeeze=False, **figure)[1][0]
