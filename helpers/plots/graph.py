"""Figures of computation graphs: memory against time, and who works when on which lane."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from helpers.plots.style import BLUE, GREY, ORANGE, ensure_axes
from helpers.plots.timeline import unit_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LANES = {"compute": (BLUE, ""), "network": (ORANGE, "//"), "wait": (GREY, "..")}
NARROW = 0.07  # of the axis: a narrower box has no room for its name


class Event(Protocol):
    """What ran from when to when, as :func:`helpers.autodiff.watch` says."""

    label: str
    start: float
    stop: float
    lane: str


def memory_against_time(
    curves: Mapping[str, Iterable[tuple[float, float]]],
    marks: Mapping[str, tuple[float, float]] | None = None,
    limits: Mapping[str, float] | None = None,
    ax: Axes | None = None,
    *,
    measured: Mapping[str, Iterable[tuple[float, float]]] | None = None,
    xlabel: str = "most memory held [MiB]",
    ylabel: str = "passes forward",
) -> Axes:
    """Draw what recomputation trades: memory to the right, time or passes forward upwards.

    Parameters
    ----------
    curves : mapping
        A way to choose what is kept → (MiB, passes forward) for each number of it.
    marks : mapping, optional
        A name → (MiB, passes forward) of one schedule that is pointed at.
    limits : mapping, optional
        A name → MiB, where somebody ended.
    ax : matplotlib.axes.Axes, optional
        Where to draw: by default in a new figure.
    measured : mapping, optional
        The same names → (memory, time) that were measured: hollow, where a curve predicts.
    xlabel, ylabel : str
        What stands at the axes, with units.

    Returns
    -------
    matplotlib.axes.Axes
        What was drawn in.
    """
    ax = ensure_axes(ax)
    for name, points in curves.items():
        memory, passes = zip(*sorted(points), strict=True)
        label = f"{name}, predicted" if measured else name
        (line,) = ax.plot(memory, passes, label=label, markevery=max(1, len(memory) // 12))
        if measured:
            memory, passes = zip(*sorted(measured[name]), strict=True)
            ax.plot(
                memory, passes, linestyle="none", marker=line.get_marker(), markersize=12,
                markerfacecolor="none", markeredgecolor=line.get_color(), markeredgewidth=2,
                label=f"{name}, measured",
            )  # fmt: skip
    for name, (memory, passes) in (marks or {}).items():
        ax.plot([memory], [passes], "k*", markersize=14)
        ax.annotate(name, (memory, passes), (8, 10), textcoords="offset points")
    for name, memory in (limits or {}).items():
        ax.axvline(memory, color="black", linestyle="--", linewidth=1.4)
        ax.annotate(
            name, (memory, 1), (4, -6), xycoords=("data", "axes fraction"),
            textcoords="offset points", va="top", rotation=90,
        )  # fmt: skip
    ax.set(xscale="log", xlabel=xlabel, ylabel=ylabel)
    ax.legend()
    return ax


def lanes(runs: Mapping[str, Sequence[Event]], ax: Axes | None = None) -> Axes:
    """Draw recorded runs of a graph: a row for each lane of each, a box for each operator.

    Parameters
    ----------
    runs : mapping of str to sequence of Event
        What it is called → what :func:`helpers.autodiff.watch` recorded, in seconds.
    ax : matplotlib.axes.Axes, optional
        Where to draw: by default in a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        What was drawn in.

    Raises
    ------
    ValueError
        For no events.
    """
    rows = [(run, lane) for run, events in runs.items() for lane in LANES
            if any(event.lane == lane for event in events)]  # fmt: skip
    if not rows:
        raise ValueError(f"lanes expects events of {list(LANES)}; got none in {list(runs)}")
    ax = ensure_axes(ax, figsize=(9.0, 0.9 + 0.55 * len(rows)))
    end = max(event.stop for events in runs.values() for event in events)
    factor, unit = unit_of(end)
    for row, (run, lane) in enumerate(rows):
        colour, hatch = LANES[lane]
        for event in (e for e in runs[run] if e.lane == lane):
            wide = (event.stop - event.start) * factor
            ax.barh(row, wide, left=event.start * factor, height=0.7, color=colour, hatch=hatch,
                    edgecolor="white", linewidth=0.4)  # fmt: skip
            if wide > NARROW * end * factor:
                middle, box = (event.start + event.stop) / 2 * factor, {"facecolor": "white"}
                ax.text(middle, row, event.label, ha="center", va="center", fontsize=10,
                        bbox={**box, "alpha": 0.7, "pad": 1, "linewidth": 0})  # fmt: skip
    ax.set_yticks(range(len(rows)), [f"{run}: {lane}" for run, lane in rows])
    ax.invert_yaxis()
    ax.grid(visible=False, axis="y")
    ax.set(xlabel=f"time [{unit}]", xlim=(0, end * factor))
    return ax
