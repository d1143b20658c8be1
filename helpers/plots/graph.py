"""What is kept of a computation graph, and what is computed again: memory against time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from helpers.plots.style import BLUE, ORANGE, VERMILION, ensure_axes, few_decades
from helpers.plots.web.page import embed

if TYPE_CHECKING:
    from IPython.display import HTML
    from matplotlib.axes import Axes

    from helpers.autodiff.checkpoint import Action


def memory_against_time(
    curves: Mapping[str, Iterable[tuple[float, float]]],
    marks: Mapping[str, tuple[float, float]] | None = None,
    limits: Mapping[str, float] | None = None,
    *,
    measured: Mapping[str, Iterable[tuple[float, float]]] | None = None,
    xlabel: str = "most memory held [MiB]",
    ylabel: str = "passes forward",
) -> Axes:
    """Draw what recomputation trades: memory to the right, time or passes forward upwards.

    ``curves`` has for a way to choose what is kept (MiB, passes forward) of each number of it;
    ``measured`` has the same names, drawn hollow, where a curve predicts. ``marks`` are single
    schedules, ``limits`` MiB where somebody ended.
    """
    ax = ensure_axes()
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
    few_decades(ax.xaxis)
    ax.legend()
    return ax


KINDS = ("forward", "backward", "forget")


def segments(ways: Mapping[str, Mapping[int, Sequence[Action]]], steps: int, first: int) -> HTML:
    """Return schedules of a chain to slide through: segments, or the optimum.

    Time runs to the right, one step forward or back each; a bar is an x that is held, from when it
    was computed until it is forgotten.

    ``ways`` has for a way to choose what is kept, such as "segments", and for a number of them a
    schedule; ``steps`` is the length of the chain, up to 64.
    """
    if not 1 <= steps <= 64:
        raise ValueError(f"segments draws chains of 1 to 64 steps; got {steps}")
    if any(first not in schedules for schedules in ways.values()):
        raise ValueError(f"segments expects a schedule for {first} in each way; got {list(ways)}")
    coded = {
        way: {str(count): [[KINDS.index(a.kind), a.step] for a in schedule]
              for count, schedule in schedules.items()}
        for way, schedules in ways.items()
    }  # fmt: skip
    data = {
        "ways": coded,
        "steps": steps,
        "first": first,
        "colours": {"held": BLUE, "forward": ORANGE, "backward": VERMILION},
    }
    return embed("segments", data)
