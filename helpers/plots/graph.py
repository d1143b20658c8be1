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
) -> Axes:
    """Draw what recomputation trades: memory to the right, forward passes upwards.

    ``curves`` has for a way to choose what is kept (MiB, forward passes) of each number of it.
    ``marks`` are single schedules, ``limits`` MiB where somebody ended.
    """
    ax = ensure_axes()
    for (name, points), dashes in zip(curves.items(), ("-", "--", ":", "-."), strict=False):
        memory, passes = zip(*sorted(points), strict=True)
        ax.plot(memory, passes, linestyle=dashes, label=name)
    for name, (memory, passes) in (marks or {}).items():
        ax.plot([memory], [passes], "k*", markersize=16)
        ax.annotate(name, (memory, passes), (8, 12), textcoords="offset points")
    for name, memory in (limits or {}).items():
        ax.axvline(memory, color="black", linestyle=":", linewidth=1.6)
        ax.annotate(
            name, (memory, 1), (6, -4), xycoords=("data", "axes fraction"),
            textcoords="offset points", va="top",
        )  # fmt: skip
    ax.figure.set_label("The less memory, the more forward passes")
    ax.set(xscale="log", xlabel="most memory held [MiB]", ylabel="forward passes")
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
