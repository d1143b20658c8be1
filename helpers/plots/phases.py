"""Who computes and who waits in one step of ranks that hand results on to each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from helpers.plots.style import BLACK, BLUE, GREEN, ORANGE, arrow, edge, ensure_axes, ink

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOOKS = {"forward": (BLUE, ""), "backward": (GREEN, ""), "waits": ("white", "//")}
HEIGHT = 0.56  # of a lane


Marks = Sequence[tuple[str, float]]


def spans_of(ranks: Sequence[Marks]) -> list[list[tuple[str, float, float]]]:
    """Return each rank's phases, each with its two ends, in s since rank 0 began its first.

    Marks are a word and the moment of the beginning, then each phase and the moment of its end, on
    a clock that all ranks share. Who has ended waits until rank 0 has.
    """
    zero, stop = ranks[0][0][1], ranks[0][-1][1] - ranks[0][0][1]
    lanes = []
    for marks in ranks:
        ends = [(what, max(0.0, moment - zero)) for what, moment in marks]
        lanes.append([(what, begin, end) for (_, begin), (what, end) in pairwise(ends)])
        if ends[-1][1] < stop:
            lanes[-1].append(("waits", ends[-1][1], stop))
    return lanes


def waits(ranks: Sequence[Marks]) -> list[float]:
    """Return which share of rank 0's step each rank waits."""
    lanes = spans_of(ranks)
    return [sum(end - begin for what, begin, end in spans if what == "waits") / lanes[0][-1][2]
            for spans in lanes]  # fmt: skip


def phases(
    ranks: Sequence[Marks], handed: Sequence[tuple[str, tuple[int, int], tuple[int, int]]]
) -> Axes:
    """Draw a lane for each rank: when it computed, and when it waited (hatched).

    Marks are as for :func:`spans_of`, phases ``"forward"``, ``"backward"`` or ``"waits"``.
    ``handed`` has for each message its name, the phase (rank, index) whose end sends it, and the
    phase whose beginning has received it.
    """
    from matplotlib.patches import Patch

    ax, lanes = ensure_axes(figsize=(9, 1.5 + 0.9 * len(ranks))), spans_of(ranks)
    for lane, spans in enumerate(lanes):
        for what, begin, end in spans:
            fill, hatch = LOOKS[what]
            line = ORANGE if hatch else edge(fill)
            ax.barh(lane, 1e3 * (end - begin), left=1e3 * begin, height=HEIGHT,
                    color=fill, hatch=hatch, edgecolor=line)  # fmt: skip
    for name, (source, index), (dest, at) in handed:
        down = HEIGHT / 2 if dest > source else -HEIGHT / 2
        start = 1e3 * lanes[source][index][2], source + down
        end = 1e3 * lanes[dest][at][1], dest - down
        arrow(ax, start, end, BLACK, "-|>", 2, zorder=4)
        ax.annotate(name, ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2), (10, 0),
                    textcoords="offset points", va="center")  # fmt: skip
    stop = 1e3 * max(spans[-1][2] for spans in lanes)
    ax.set(xlim=(0, 1.01 * stop), ylim=(len(ranks) - 0.5, -0.5), xlabel="time [ms]")
    ax.set_yticks(range(len(ranks)), [f"rank {rank}" for rank in range(len(ranks))])
    ax.grid(False, axis="y")
    ax.figure.set_label("Who computes and who waits in a step")
    patches = [
        Patch(facecolor=fill, hatch=hatch, edgecolor=ORANGE if hatch else ink("white"), label=what)
        for what, (fill, hatch) in LOOKS.items()
    ]
    ax.legend(handles=patches, ncols=3, loc="lower left", bbox_to_anchor=(0, 1.0))
    return ax
