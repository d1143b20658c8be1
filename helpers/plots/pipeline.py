"""Pipelines: who works on which micro-batch when, and how many activations are kept meanwhile."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from helpers.plots.style import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    VERMILION,
    edge,
    ensure_axes,
    ink,
)
from helpers.plots.web.page import embed

if TYPE_CHECKING:
    from IPython.display import HTML
    from matplotlib.axes import Axes

    from helpers.pipeline.model import Timeline

COLOURS = {"F": BLUE, "B": ORANGE, "I": VERMILION, "W": GREEN, "U": PURPLE}
NAMES = {
    "F": "forward",
    "B": "backward",
    "I": "backward: inputs",
    "W": "backward: weights",
    "U": "update",
}


def lanes(*timelines: Timeline, label: str = "") -> Axes:
    """Draw a lane for each rank and a box for each action, with the number of its micro-batch.

    Where backward passes have two halves, a letter says which: F0, I0, W0.
    Several timelines stand one above the other, on one scale of time; ``label`` says what to see.
    Return the last one's axes.
    """
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch
    from matplotlib.transforms import offset_copy

    width, span = 11, max(timeline.span for timeline in timelines)
    count, ranks = len(timelines), [timeline.schedule.ranks for timeline in timelines]
    figure, axes = plt.subplots(
        count, 1, squeeze=False, sharex=True, height_ratios=ranks,
        figsize=(width, 1.3 + 0.5 * sum(ranks) + 0.5 * (count - 1)),
    )  # fmt: skip
    points = 72 * (width - 1) / span  # of the paper, for a second; rank names take an inch
    for ax, timeline in zip(axes.flat, timelines, strict=True):
        _boxes(ax, timeline, points)
    name = ", ".join(timeline.schedule.name for timeline in timelines)
    figure.set_label(label or f"What each rank does when: {name}")
    factor = _factor(timelines[0])
    ax.set_xlim(0, span * factor)
    ax.set_xlabel("time [ms]" if factor > 1 else "time [forward passes of a stage]", loc="right")
    kinds = {box.action.kind for timeline in timelines for box in timeline.boxes}
    handles: list = [
        Patch(facecolor=fill, edgecolor=edge(fill), label=NAMES[kind])
        for kind, fill in COLOURS.items()
        if kind in kinds
    ]
    if any(timeline.schedule.chunks > 1 for timeline in timelines):
        handles.append(Line2D([], [], color=BLACK, linewidth=4, label="second chunk"))
    ax.legend(
        handles=handles, ncols=len(handles), loc="upper left", bbox_to_anchor=(0, 0),
        bbox_transform=offset_copy(ax.transAxes, ax.figure, 0, -24, "points"),
        borderaxespad=0, fontsize=12, handlelength=1.2, columnspacing=1.2,
    )  # fmt: skip
    return ax


def _factor(timeline: Timeline) -> float:
    return 1e3 if timeline.unit == "s" else 1.0


def _boxes(ax: Axes, timeline: Timeline, points: float) -> None:
    """Draw one timeline's boxes and its title; ``points`` of the paper are one unit of its time."""
    ranks, factor = timeline.schedule.ranks, _factor(timeline)
    halves = any(box.action.kind in "IW" for box in timeline.boxes)
    shortest: dict[tuple[int, str], float] = {}
    for box in timeline.boxes:
        key = box.rank, box.action.kind
        shortest[key] = min(box.end - box.begin, shortest.get(key, math.inf))
    for box in timeline.boxes:
        kind, begin, length = box.action.kind, box.begin - timeline.begin, box.end - box.begin
        ax.barh(
            box.rank, length * factor, left=begin * factor, height=0.8, color=COLOURS[kind],
            edgecolor=edge(COLOURS[kind]), linewidth=0.8,
        )  # fmt: skip
        if box.action.chunk % 2:
            ends = begin * factor, (begin + length) * factor
            ax.hlines(box.rank + 0.32, *ends, color=BLACK, linewidth=4, capstyle="butt")
        number = str(box.action.micro)
        ems = 0.7 * len(number)  # its width in bold; a W takes 1.1
        for text, wide in ((kind + number, ems + 1.1), (number, ems))[0 if halves else 1 :]:
            # a margin; all boxes of a kind in a lane bear a number, or none
            size = (shortest[box.rank, kind] * points - 3.5) / wide
            if size > 7:
                ax.text(
                    (begin + length / 2) * factor, box.rank - 0.05, text,
                    fontsize=min(12, size), weight="bold", ha="center", va="center",
                    color=ink(COLOURS[kind]), clip_on=True,
                )  # fmt: skip
                break
    where = "recorded" if timeline.recorded else "model, not recorded"
    note = f"; {timeline.note}" if timeline.note else ""
    name = timeline.schedule.name
    ax.set_title(f"{name}: {timeline.bubble:.0%} idle ({where}{note})", fontsize=13)
    ax.set(
        yticks=range(ranks),
        yticklabels=[f"rank {rank}" for rank in range(ranks)],
        ylim=(ranks - 0.5, -0.5),
    )
    ax.grid(visible=False)


def held(timelines: Sequence[Timeline]) -> Axes:
    """Draw how many micro-batches' activations rank 0 keeps over time, a line for each timeline."""
    ax = ensure_axes(figsize=(9, 3.6))
    factor = 1e3 if timelines[0].unit == "s" else 1.0
    ax.figure.set_label("How many micro-batches rank 0 keeps")
    for timeline, dashes in zip(timelines, ("-", "--", ":", "-."), strict=False):
        moments, counts = zip(*timeline.held(0), strict=True)
        most = timeline.most_held(0)
        ax.step(
            [factor * moment for moment in moments], counts, where="post", linestyle=dashes,
            marker="", label=f"{timeline.schedule.name}, at most {most}",
        )  # fmt: skip
    ax.set(
        xlabel="time [ms]" if factor > 1 else "time [forward passes of a stage]",
        ylabel="micro-batches kept\non rank 0",
    )
    ax.set_ylim(bottom=0)
    ax.legend(fontsize=12)
    return ax


def spans(lengths: Mapping[str, float], title: str) -> Axes:
    """Draw a bar for each schedule: how long a step takes, in forward passes of a stage."""
    ax = ensure_axes(figsize=(9, 3))
    bars = ax.barh(list(lengths), list(lengths.values()), color=BLUE)
    ax.bar_label(bars, fmt="%g", padding=4)
    ax.invert_yaxis()
    ax.margins(x=0.12)
    ax.figure.set_label("How long a step takes under each schedule")
    ax.set(xlabel="time of a step [forward passes of a stage]", title=title)
    return ax


def bubbles(
    predicted: Mapping[str, Sequence[float]],
    measured: Mapping[str, Sequence[float]],
    micro: Sequence[int],
) -> Axes:
    """Draw the idle share over the number of micro-batches, predicted (dashed) and measured."""
    ax = ensure_axes(figsize=(9, 4.2))
    for name in measured:
        (points,) = ax.plot(micro, measured[name], linestyle="", label=f"{name}, measured")
        ax.plot(
            micro, predicted[name], linestyle="--", marker="", color=points.get_color(),
            label=f"{name}, predicted",
        )  # fmt: skip
    ax.figure.set_label("More micro-batches, less idle time")
    ax.set(xlabel="micro-batches, m", ylabel="share of the time idle", xticks=list(micro))
    ax.set_ylim(0, 1)
    ax.legend(fontsize=11, ncols=2)
    return ax


def pipelines(timelines: Sequence[Timeline]) -> HTML:
    """Return a player of steps; its sliders begin at 4 ranks and 8 micro-batches, or the nearest.

    Of two timelines for the same schedule and sizes the first is shown.
    """
    found: dict[tuple, dict] = {}
    for line in timelines:
        schedule = line.schedule
        found.setdefault((schedule.name, schedule.ranks, schedule.micro), _coded(line))
    data = {
        "runs": list(found.values()),
        "ranks": 4,
        "micro": 8,
        "colours": list(COLOURS.values()),
        "edges": [edge(colour) for colour in COLOURS.values()],
        "inks": [ink(colour) for colour in COLOURS.values()],
        "names": [NAMES[kind] for kind in COLOURS],
    }
    return embed("pipeline", data)


def _coded(line: Timeline) -> dict:
    schedule, per, kinds = line.schedule, 1000 / line.span, list(COLOURS)
    boxes = [
        [
            *(box.rank, kinds.index(box.action.kind), box.action.micro, box.action.chunk),
            round((box.begin - line.begin) * per),
            round((box.end - line.begin) * per),
        ]
        for box in line.boxes
    ]
    return {
        "name": schedule.name,
        "ranks": schedule.ranks,
        "micro": schedule.micro,
        "chunks": schedule.chunks,
        "recorded": line.recorded,
        "note": line.note,
        "idle": round(line.bubble, 4),
        "boxes": boxes,
    }
