"""The one style of every figure: colours that everyone can tell apart, text for the back row."""

from __future__ import annotations

# Okabe & Ito (2008), "Color Universal Design": distinguishable with every form of colour blindness.
PALETTE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#000000")
BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, YELLOW, BLACK = PALETTE
GREY = "#999999"
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
SEQUENTIAL = "cividis"  # perceptually uniform, the same to red-green colour blindness
DIVERGING = "PuOr"


def use() -> None:
    """Make this style matplotlib's for the rest of the session (call once, in the set-up cell)."""
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


def colour(index: int) -> str:
    """Return the palette's colour for item ``index`` (a rank, a method), cycling after six.

    >>> colour(0) == colour(6) == BLUE
    True
    """
    return PALETTE[index % 6]
