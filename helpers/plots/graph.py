"""What is kept of a computation graph, and what is computed again: memory against time."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from helpers.plots.layers import layered
from helpers.plots.style import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PALETTE,
    VERMILION,
    arrow,
    edge,
    ensure_axes,
    ink,
    note,
    plain_ticks,
)
from helpers.plots.web.page import embed

if TYPE_CHECKING:
    from IPython.display import HTML
    from matplotlib.axes import Axes

    from helpers.autodiff import Variable
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
        note(ax, name, (memory, passes), (8, 12))
    for name, memory in (limits or {}).items():
        ax.axvline(memory, color="black", linestyle=":", linewidth=1.6)
        note(ax, name, (memory, 1), (6, -4), xycoords=("data", "axes fraction"), va="top")
    ax.figure.set_label("The less memory, the more forward passes")
    ax.set(xscale="log", xlabel="most memory held [MiB]", ylabel="forward passes")
    plain_ticks(ax.xaxis)
    ax.legend()
    return ax


def orders(ways: Mapping[str, Sequence[Mapping[Variable, int]]]) -> Sequence[Axes]:
    """Draw a small graph in some orders, each operator above the results alive in its step.

    ``ways`` has for an order, step by step, the bytes of the results alive, the new one last.
    """
    import matplotlib.pyplot as plt
    from matplotlib.patches import Patch

    figure, axes = plt.subplots(2, len(ways), figsize=(9, 5), sharex="col", sharey="row",
                                height_ratios=(2, 3))  # fmt: skip
    places: Mapping[Hashable, tuple[float, float]] = {}  # of the first order: the same in each
    colours: dict[Variable, str] = {}
    for (title, steps), above, below in zip(ways.items(), *axes, strict=True):
        made = [list(alive)[-1] for alive in steps]
        sources = {v: v.maker.inputs if v.maker else () for v in made}
        sources = {v: () for read in sources.values() for v in read if not v.maker} | sources
        places = places or layered(sources, dict.fromkeys(sources, 1.0)).places
        colours = colours or dict(zip(made, PALETTE, strict=False))
        names = {v: str(v.maker.operator) if v.maker else v.name for v in sources}
        high = {v: places[v][0] for v in sources}
        step = {v: made.index(v) + 1 if v.maker else 0 for v in sources}
        boxes = {}
        for v in sources:
            shade = colours.get(v, "white")
            boxes[v] = above.text(
                step[v], high[v], names[v], color=ink(shade), ha="center", va="center",
                bbox={"facecolor": shade, "edgecolor": edge(shade)},
            ).get_bbox_patch()  # fmt: skip
        for end, read in sources.items():
            for v in read:
                arrow(above, (step[v], high[v]), (step[end], high[end]), zorder=4,
                      patchA=boxes[v], patchB=boxes[end])  # fmt: skip
        above.set(title=title, ylim=(max(high.values()) + 8, min(high.values()) - 8))
        above.axis("off")
        low = [0.0] * len(steps)
        for v, shade in colours.items():
            at = [i for i, alive in enumerate(steps) if v in alive]
            waits = [made[i] is not v and v not in sources[made[i]] for i in at]
            below.bar([i + 1 for i in at], [steps[i][v] / 1e6 for i in at], color=shade,
                      bottom=[low[i] for i in at], edgecolor="white", label=names[v],
                      hatch=["//" if each else "" for each in waits])  # fmt: skip
            for i in at:
                low[i] += steps[i][v] / 1e6
        for i, most in enumerate(low, 1):
            below.text(i, most, f"{most:.1f}", ha="center", va="bottom")
        below.set(xlabel="step", xticks=range(1, len(steps) + 1), xlim=(-0.5, len(steps) + 0.6))
    axes[1, 0].set(ylabel="results alive [MB]")
    axes[1, -1].legend(
        handles=[Patch(facecolor=GREY, edgecolor="white", hatch="//", label="waits")]
    )
    figure.set_label("The order decides how long a large result waits")
    return axes[1]


def _joined(spans: Sequence[tuple[float, float]], gap: float = 0.1) -> list[tuple[float, float]]:
    """Join spans, in ms, that are too close for the eye."""
    joined: list[tuple[float, float]] = []
    for start, stop in sorted(spans):
        if joined and start - joined[-1][1] < gap:
            joined[-1] = joined[-1][0], max(stop, joined[-1][1])
        else:
            joined.append((start, stop))
    return joined


def all_have_begun(ranks: Sequence[Sequence[tuple[str, str, float, float]]]) -> list[float]:
    """Return for each allreduce when the last rank began it; events as for :func:`overlap`."""
    begun = [[start for _, lane, start, _ in events if lane == "network"] for events in ranks]
    return [max(each) for each in zip(*begun, strict=True)]


def overlap(ranks: Sequence[Sequence[tuple[str, str, float, float]]]) -> Axes:
    """Draw what ranks compute and send in a step: lanes of computing and of allreduces for each.

    Gradients and their allreduces are numbered in the order in which the gradients are ready.
    An event is its label, its lane (as in ``autodiff.watch``), and its two ends in seconds of a
    clock that all ranks share. An allreduce is hatched until all ranks have begun it.
    """
    from matplotlib.patches import Patch

    looks = {
        "compute": (BLUE, "", "computes"),
        "wait": (ORANGE, "//", "waits"),
        "network": (GREEN, "", "allreduce"),
    }
    zero = min(start for events in ranks for _, _, start, _ in events)
    ranks = [[(label, lane, start - zero, stop - zero) for label, lane, start, stop in events]
             for events in ranks]  # fmt: skip
    met = [1e3 * moment for moment in all_have_begun(ranks)]
    ax = ensure_axes(figsize=(9, 1.6 + 1.4 * len(ranks)))
    for rank, events in enumerate(ranks):
        top = 2.4 * rank  # the middle of its upper lane
        for lane, (colour, hatch, _) in looks.items():
            spans = [(1e3 * start, 1e3 * stop) for _, which, start, stop in events if which == lane]
            spans = [(start, stop - start) for start, stop in
                     (spans if lane == "network" else _joined(spans))]  # fmt: skip
            low = top + (lane == "network") - 0.4
            ax.broken_barh(spans, (low, 0.8), facecolor=colour, hatch=hatch, edgecolor="white",
                           linewidth=1.5 if lane == "network" else 0.5)  # fmt: skip
            if lane == "network":
                ax.broken_barh(
                    [(start, max(0, min(both - start, length)))
                     for (start, length), both in zip(spans, met, strict=True)],
                    (low, 0.8), facecolor="white", hatch="\\\\", edgecolor=colour,
                    linewidth=[float(both > start) for (start, _), both in
                               zip(spans, met, strict=True)],
                )  # fmt: skip
                for number, ((start, length), both) in enumerate(zip(spans, met, strict=True), 1):
                    middle = (min(max(start, both), start + length) + start + length) / 2
                    ax.text(middle, top + 1, str(number), ha="center", va="center")
        begun = [1e3 * start for label, _, start, _ in events if label == "begin all-reduce"]
        (marks,) = ax.plot(
            begun, [top - 0.55] * len(begun), "kv", markersize=9, clip_on=False,
            label="gradient ready",
        )  # fmt: skip
        for number, start in enumerate(begun, 1):
            ax.annotate(str(number), (start, top - 0.55), (-6, 0), textcoords="offset points",
                        ha="right", va="center", annotation_clip=False)  # fmt: skip
    patches = [Patch(facecolor=colour, hatch=hatch, edgecolor="white", label=name)
               for colour, hatch, name in looks.values()]  # fmt: skip
    alone = {"facecolor": "white", "hatch": "\\\\", "edgecolor": GREEN}
    patches.append(Patch(label="allreduce, the other rank has not begun it", **alone))
    ax.legend(handles=[marks, *patches], ncols=3, loc="lower left", bbox_to_anchor=(-0.14, 1.04))
    names = [name for rank in range(len(ranks)) for name in (f"rank {rank}", "allreduces")]
    ax.set_yticks([2.4 * rank + lane for rank in range(len(ranks)) for lane in (0, 1)], names)
    ax.figure.set_label("When gradients are ready, and when their allreduces run")
    ax.set(xlabel="time of a step [ms]", ylim=(2.4 * len(ranks) - 0.9, -0.9))
    ax.grid(False, axis="y")
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
