"""Pictures of what a collective costs: bytes by rank, seconds by size, predicted and measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from helpers.plots.description import axes
from helpers.plots.style import GREY, MARKERS, VERMILION, colour, ensure_axes, few_decades

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW = 6  # numbers of ranks that have room below an axis


def bytes_by_rank(sent: Mapping[str, Sequence[float]], K: float, ax: Axes | None = None) -> Axes:
    """Draw, for each algorithm, a bar for each rank: what it sent, in multiples of K.

    ``sent`` and K, the array's size, are in bytes.
    """
    ax = ensure_axes(ax)
    ax.figure.set_label("What each rank sends, by algorithm")
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


def fine(sizes: Sequence[float]) -> list[int]:
    """Return a hundred sizes from the least to the largest of some, at equal ratios.

    Each is a whole number of bytes; near 1 byte neighbours fall together.
    """
    import numpy as np

    return np.unique(np.geomspace(min(sizes), max(sizes), 100).round().astype(int)).tolist()


def times_by_size(
    sizes: Sequence[float],
    measured: Mapping[str, Sequence[float]],
    predicted: Mapping[str, Sequence[float]] | None = None,
    ax: Axes | None = None,
    at: Sequence[float] | None = None,
) -> Axes:
    """Draw seconds over bytes, both logarithmic: markers measured, dashed lines predicted.

    A name that is in both keeps its colour. ``at`` are the sizes of ``predicted``, unless they are
    ``sizes``: between few sizes a curve has corners that no model has, and :func:`fine` returns
    many.
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
    few_decades(ax.yaxis)
    ax.legend(fontsize=12)
    return ax


def times_by_ranks(
    ranks: Sequence[int],
    seconds: Mapping[str, Sequence[float]],
    ax: Axes | None = None,
    predicted: Mapping[str, Sequence[float]] | None = None,
) -> Axes:
    """Draw seconds over the number of ranks, both logarithmic, one line a name.

    What is ``predicted``, of names that are in ``seconds``, is dashed, beside markers.
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
    few_decades(ax.yaxis)
    if len(ranks) <= FEW:  # each by its number, in place of powers of two
        ax.set_xticks(list(ranks), [str(n) for n in ranks])
    ax.legend(fontsize=12)
    return ax


def limit(ax: Axes, y: float, text: str) -> None:
    """Draw a horizontal line with a text on it."""
    ax.axhline(y, color=GREY, linestyle=":", linewidth=1.8)
    ax.annotate(
        text, (0.01, y), xycoords=("axes fraction", "data"), xytext=(0, 3),
        textcoords="offset points", fontsize=12,
    )  # fmt: skip


def doubt(ax: Axes, share: float) -> None:
    """Say in a picture of times that other programs had the cores, where they had.

    ``share`` is the part of the cores that was left for them, as
    :func:`helpers.collectives.measure.share` finds it; from 0.9 on nothing is said.
    """
    if share < 0.9:
        lost = 100 * (1 - share)
        text = f"Other programs had {lost:.0f} % of the cores: do not believe these times."
        if named := next(filter(None, map(ax.get_title, ("left", "center"))), ""):
            text = f"{named}\n{text}"
        else:
            ax.figure.set_label(axes(ax.figure))  # a warning is no name
        ax.set_title(text, color=VERMILION, fontsize=13)
