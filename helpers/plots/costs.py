"""Pictures of what a collective costs: bytes by rank, seconds by size, predicted and measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from helpers.plots.style import GREY, MARKERS, VERMILION, colour, ensure_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW = 6  # numbers of ranks that have room below an axis


def bytes_by_rank(sent: Mapping[str, Sequence[float]], K: float, ax: Axes | None = None) -> Axes:
    """Draw, for each algorithm, a bar for each rank: what it sent, in multiples of K.

    Parameters
    ----------
    sent : mapping of str to sequence of float
        An algorithm's name → the bytes that each rank sent.
    K : float
        The array's size, bytes.
    ax : matplotlib.axes.Axes, optional
        Where to draw: by default in a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        What was drawn in.

    Raises
    ------
    ValueError
        For an empty ``sent``.
    """
    if not sent:
        raise ValueError("bytes_by_rank expects at least one algorithm; got none")
    ax = ensure_axes(ax)
    ranks = max(len(values) for values in sent.values())
    width = 0.84 / ranks
    for place, values in enumerate(sent.values()):
        for rank, value in enumerate(values):
            x = place + (rank - (len(values) - 1) / 2) * width
            label = f"rank {rank}" if place == 0 else None
            ax.bar(x, value / K, width * 0.9, color=colour(rank), label=label)
    ax.set(xticks=range(len(sent)), xticklabels=[name.replace("_", "\n") for name in sent])
    ax.set_ylabel("bytes sent ÷ K")
    ax.grid(visible=False, axis="x")
    ax.legend(ncols=min(ranks, 4), loc="upper center", bbox_to_anchor=(0.5, 1.17), fontsize=12)
    return ax


def fine(sizes: Sequence[float], points: int = 100) -> list[int]:
    """Return many sizes from the least to the largest of some, at equal ratios.

    Parameters
    ----------
    sizes : sequence of float
        Two or more, above 0, bytes.
    points : int
        How many there are at most: near 1 byte neighbours fall together.

    Returns
    -------
    list of int
        Whole numbers, each once, rising.

    Raises
    ------
    ValueError
        If a size is not above 0.

    Examples
    --------
    >>> fine([10, 1000], points=3)
    [10, 100, 1000]
    """
    import numpy as np

    if not len(sizes) or min(sizes) <= 0:
        raise ValueError(f"fine expects sizes above 0 bytes; got {list(sizes)}")
    return np.unique(np.geomspace(min(sizes), max(sizes), points).round().astype(int)).tolist()


def times_by_size(
    sizes: Sequence[float],
    measured: Mapping[str, Sequence[float]],
    predicted: Mapping[str, Sequence[float]] | None = None,
    ax: Axes | None = None,
    at: Sequence[float] | None = None,
) -> Axes:
    """Draw seconds over bytes, both logarithmic: markers measured, dashed lines predicted.

    Parameters
    ----------
    sizes : sequence of float
        Sizes of the array, bytes.
    measured : mapping of str to sequence of float
        A name → seconds, one for each size.
    predicted : mapping of str to sequence of float, optional
        The same; a name that is in both keeps its colour.
    ax : matplotlib.axes.Axes, optional
        Where to draw: by default in a new figure.
    at : sequence of float, optional
        The sizes of ``predicted``, bytes; None: ``sizes``. Between few sizes a curve has corners
        that no model has: :func:`fine` returns many.

    Returns
    -------
    matplotlib.axes.Axes
        What was drawn in.
    """
    ax, at = ensure_axes(ax), sizes if at is None else at
    names = list(dict.fromkeys([*measured, *(predicted or {})]))
    for number, name in enumerate(names):
        if name in measured:
            ax.plot(
                sizes,
                measured[name],
                color=colour(number),
                marker=MARKERS[number % len(MARKERS)],
                linestyle="-" if predicted is None else "none",
                label=name.replace("_", " "),
            )
        if predicted and name in predicted:
            label = None if name in measured else name.replace("_", " ")
            ax.plot(
                at, predicted[name], color=colour(number), marker="", linestyle="--", label=label
            )
    if set(measured) & set(predicted or {}):
        ax.plot([], [], color=GREY, marker="", linestyle="--", label="predicted")
    ax.set(xscale="log", yscale="log", xlabel="size of the array, K (bytes)", ylabel="time (s)")
    ax.legend(fontsize=12)
    return ax


def times_by_ranks(
    ranks: Sequence[int],
    seconds: Mapping[str, Sequence[float]],
    ax: Axes | None = None,
    predicted: Mapping[str, Sequence[float]] | None = None,
) -> Axes:
    """Draw seconds over the number of ranks, both logarithmic, one line a name.

    Parameters
    ----------
    ranks : sequence of int
        Numbers of ranks.
    seconds : mapping of str to sequence of float
        A name → seconds, one for each number of ranks.
    ax : matplotlib.axes.Axes, optional
        Where to draw: by default in a new figure.
    predicted : mapping of str to sequence of float, optional
        The same, of names that are in ``seconds``: dashed, beside markers.

    Returns
    -------
    matplotlib.axes.Axes
        What was drawn in.
    """
    ax = ensure_axes(ax)
    for number, (name, values) in enumerate(seconds.items()):
        both = {"color": colour(number), "linestyle": "-" if predicted is None else "none"}
        ax.plot(ranks, values, marker=MARKERS[number], label=name.replace("_", " "), **both)
        if predicted and name in predicted:
            ax.plot(ranks, predicted[name], color=colour(number), marker="", linestyle="--")
    ax.set(xlabel="number of ranks, N", ylabel="time (s)", yscale="log")
    ax.set_xscale("log", base=2)
    if predicted:
        ax.plot([], [], color=GREY, marker="", linestyle="--", label="predicted")
    if len(ranks) <= FEW:  # each by its number, in place of powers of two
        ax.set_xticks(list(ranks), [str(n) for n in ranks])
    ax.legend(fontsize=12)
    return ax


def limit(ax: Axes, y: float, text: str) -> None:
    """Draw a horizontal line with a text on it.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Where to draw.
    y : float
        The line's height, in data coordinates.
    text : str
        What stands on it.
    """
    ax.axhline(y, color=GREY, linestyle=":", linewidth=1.8)
    ax.annotate(
        text, (0.01, y), xycoords=("axes fraction", "data"), xytext=(0, 3),
        textcoords="offset points", fontsize=12,
    )  # fmt: skip


def doubt(ax: Axes, share: float, enough: float = 0.9) -> None:
    """Say in a picture of times that other programs had the cores, where they had.

    Parameters
    ----------
    ax : matplotlib.axes.Axes
        Where the times are.
    share : float
        The part of the cores that was left for them, 0 to 1, as
        :func:`helpers.collectives.quiet.share` finds it.
    enough : float
        From where on nothing is said.
    """
    if share < enough:
        lost = 100 * (1 - share)
        text = f"Other programs had {lost:.0f} % of the cores: do not believe these times."
        ax.set_title(text, color=VERMILION, fontsize=13)
