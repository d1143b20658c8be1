"""Pictures of what a collective costs: bytes by rank, seconds by size, predicted and measured."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from helpers.plots.style import (
    BLACK,
    GREY,
    colour,
    ensure_axes,
    few_decades,
    marker,
    note,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

GAP = 1.1  # ratio of the places of two marks of one size
FEW = 6  # numbers of ranks that have room below an axis
PLACES = {  # in the palette: an algorithm looks the same in every picture
    "chain": 0,
    "tree": 1,
    "recursive doubling": 2,
    "ring": 3,
    "flat ring": 3,
    "ring step, all ranks": 3,
    "two levels": 4,
    "two levels, ring": 4,
    "halving and doubling": 5,
    "two levels, halving": 5,
}
DASHES: tuple = ((0, (1, 1.3)), "--", "-.", (0, (7, 2)), (0, (4, 1, 1, 1, 1, 1)), (0, (2, 2)))


def shown(name: str) -> str:
    """Return an algorithm's name as pictures write it: two levels for two_level."""
    return "two levels" if name == "two_level" else name.replace("_", " ")


def _place(name: str) -> int | None:
    return PLACES.get(shown(name).removeprefix("your "))


def look(name: str, place: int | None = None) -> dict[str, Any]:
    """Return the colour and marker of a place in the palette; without one, the algorithm's.

    What the reader wrote looks like the algorithm, with hollow markers. MPI's own is grey.
    """
    if name.startswith("MPI"):
        return {"color": GREY, "marker": "X"}
    place = _place(name) or 0 if place is None else place
    hollow = {"markerfacecolor": "white", "markeredgewidth": 2.0} if name.startswith("your") else {}
    return {"color": colour(place), "marker": marker(place), **hollow}


def _legend(
    ax: Axes, entries: Mapping[str, dict[str, Any]], title: str | None, beside: bool
) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=name, **entry) for name, entry in entries.items()]
    # measured times of a busy machine lie anywhere
    place = {"loc": "upper left", "bbox_to_anchor": (1, 1)} if beside else {}
    legend = ax.legend(handles=handles, fontsize=12, title=title, handlelength=4.5, **place)
    legend.get_title().set_fontsize(12)
    legend._legend_box.align = "left"


def bytes_by_rank(sent: Mapping[str, Sequence[float]], K: float, ax: Axes | None = None) -> Axes:
    """Draw, for each algorithm, a bar for each rank: what it sent, in multiples of K.

    ``sent`` and K, the array's size, are in bytes.
    """
    from matplotlib.ticker import MaxNLocator

    ax = ensure_axes(ax)
    ax.figure.set_label("What each rank sends, by algorithm")
    ranks = max(len(values) for values in sent.values())
    width = 0.84 / ranks
    for place, values in enumerate(sent.values()):
        for rank, value in enumerate(values):
            x = place + (rank - (len(values) - 1) / 2) * width
            label = f"rank {rank}" if place == 0 else None
            ax.bar(x, value / K, width * 0.9, color=colour(rank), label=label)
    ax.set(xticks=range(len(sent)), xticklabels=[shown(name).replace(" ", "\n") for name in sent])
    ax.set_ylabel("bytes sent ÷ K")
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
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
    lines: str = "predicted",
) -> Axes:
    """Draw seconds over bytes, both logarithmic: markers measured, dashed lines predicted.

    A name that is in both keeps its colour. Beside lines, marks of one size stand side by side, so
    that each is seen where times are equal. ``at`` are the sizes of ``predicted``, unless they are
    ``sizes``: between few sizes a curve has corners that no model has, and :func:`fine` returns
    many. ``lines`` says in the legend what they are.
    """
    ax = ensure_axes(ax)
    gap = GAP if predicted else 1
    _times(ax, sizes, measured, predicted, sizes if at is None else at, lines, gap, beside=True)
    ax.set(xscale="log", yscale="log", xlabel="size of the array, K [bytes]", ylabel="time [s]")
    few_decades(ax.yaxis)
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
    apart = 1.03 if predicted else 1
    _times(ax, ranks, seconds, predicted, ranks, gap=apart, beside=bool(predicted))
    ax.set(xlabel="number of ranks, N", ylabel="time [s]", yscale="log")
    ax.set_xscale("log", base=2)
    few_decades(ax.yaxis)
    if len(ranks) <= FEW:  # each by its number, in place of powers of two
        ax.set_xticks(list(ranks), [str(n) for n in ranks])
    return ax


def _times(
    ax: Axes,
    xs: Sequence[float],
    measured: Mapping[str, Sequence[float]],
    predicted: Mapping[str, Sequence[float]] | None,
    at: Sequence[float],
    lines: str = "predicted",
    gap: float = 1,
    *,
    beside: bool,
) -> None:
    """Draw a line or markers for each name, in the algorithm's look, and the legend.

    Where there are lines, markers of the same x stand apart, each ``gap`` times further right.
    """
    entries, known = {}, {name: _place(name) for name in [*measured, *(predicted or {})]}
    free = itertools.cycle(place for place in range(len(DASHES)) if place not in known.values())
    for name, place in known.items():
        place = next(free) if place is None else place
        entry = entries[shown(name)] = look(name, place)
        if predicted is None:
            entry["linestyle"] = "--" if name.startswith("your") else "-"
        else:
            entry["linestyle"] = DASHES[place % len(DASHES)] if name in predicted else "none"
        if predicted and name in predicted:
            line = entry | {"marker": ""}
            ax.plot(at, predicted[name], label=None if name in measured else shown(name), **line)
        if name in measured:
            marks = entry if predicted is None else entry | {"linestyle": "none"}
            aside = gap ** (list(measured).index(name) - (len(measured) - 1) / 2)
            at_x = [x * aside for x in xs]
            ax.plot(at_x, measured[name], label=shown(name), zorder=3, **marks)
    how = ", moved apart" if gap > 1 else ""
    title = f"marks: measured{how}\nlines: {lines}" if predicted else None
    _legend(ax, entries, title, beside)


def bars(
    measured: Mapping[str, float], predicted: Mapping[str, float], least: float, unit: str
) -> Axes:
    """Draw a bar for each algorithm's measured time, its prediction, and the least possible."""
    ax = ensure_axes(figsize=(9, 4.2))
    names = [shown(name).replace(" ", "\n") for name in measured]
    shades = [look(name)["color"] for name in measured]
    ax.bar(names, list(measured.values()), width=0.6, color=shades)
    for place, name in enumerate(measured):  # above the bar and the prediction
        top = max(measured[name], predicted[name])
        note(ax, f"{measured[name]:.0f}", (place, top), (0, 8), ha="center")
    ax.plot(
        names, [predicted[name] for name in measured], "o", color=BLACK, markersize=10,
        markeredgecolor="white", markeredgewidth=1.5, label="predicted",
    )  # fmt: skip
    ax.axhline(least, color=BLACK, linestyle="--", label=f"least possible, {least:.0f} {unit}")
    ax.grid(visible=False, axis="x")
    ax.set(ylabel=f"{unit} (bars: measured)")
    ax.margins(y=0.1)
    ax.legend()
    return ax


def limit(ax: Axes, y: float, text: str) -> None:
    """Draw a horizontal line with a text on it."""
    ax.axhline(y, color=GREY, linestyle=":", linewidth=1.8)
    note(ax, text, (0.01, y), (0, 3), xycoords=("axes fraction", "data"), fontsize=12)


def crossing(ax: Axes, x: float, text: str) -> None:
    """Draw a vertical line, with a text beside it where there is more room."""
    ax.axvline(x, color=BLACK, linestyle=":")
    place = ax.transAxes.inverted().transform(ax.transData.transform((x, 1)))[0]  # from 0 to 1
    shift, side = ((6, 4), "left") if place < 0.5 else ((-6, 4), "right")
    note(ax, text, (x, 0), shift, xycoords=("data", "axes fraction"), ha=side, va="bottom")
