"""Pictures of a model on many ranks: who keeps what, what travels when, what a step is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from helpers.plots.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, ensure_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PARTS = (("parameter", BLUE, ""), ("gradient", ORANGE, "//"), ("optimizer", GREEN, ".."))
WORK = (
    ("compute", BLUE, ""),
    ("bubble", GREY, "xx"),
    ("tensor", ORANGE, "//"),
    ("pipeline", GREEN, ".."),
    ("data", PURPLE, "\\\\"),
)


def stage_bytes(
    formula: Sequence[Mapping[str, float]],
    measured: Sequence[Mapping[str, float]] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw bytes for each parameter by ZeRO's stage: bars by formula, marks as counted.

    Parameters
    ----------
    formula : sequence of mapping
        For each stage "parameter", "gradient", "optimizer", in bytes for each parameter.
    measured : sequence of mapping, optional
        The same as a rank held them.
    ax : matplotlib.axes.Axes, optional
        Where to draw: by default in a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        What was drawn in.
    """
    ax = ensure_axes(ax, figsize=(9, 3.8))
    for stage, held in enumerate(formula):
        bottom = 0.0
        for name, colour, hatch in PARTS:
            label = name if stage == 0 else None
            ax.bar(stage, held[name], 0.6, bottom, color=colour, hatch=hatch, label=label,
                   edgecolor="white")  # fmt: skip
            bottom += held[name]
        ax.text(stage + 0.33, bottom, f"{bottom:.3g}", va="center", fontsize=13)
    if measured is not None:
        totals = [sum(held.values()) for held in measured]
        ax.plot(range(len(totals)), totals, "D", color=BLACK, markersize=8, linestyle="none",
                label="counted on a rank")  # fmt: skip
    ax.set(xticks=range(len(formula)), ylabel="bytes for each parameter")
    ax.set_xticklabels([f"stage {stage}" for stage in range(len(formula))])
    ax.grid(visible=False, axis="x")
    ax.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=12)
    return ax


def spans(ranks: Sequence[Sequence[Any]], title: str = "", ax: Axes | None = None) -> Axes:
    """Draw what ranks computed and sent, as it was recorded: two lanes for each.

    Parameters
    ----------
    ranks : sequence of sequence of helpers.sharded.background.Span
        Of each rank; times in s from the step's beginning.
    title : str
        What stands above.
    ax : matplotlib.axes.Axes, optional
        Where to draw: by default in a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        What was drawn in.

    Raises
    ------
    ValueError
        If no rank did anything.
    """
    if not any(ranks):
        raise ValueError("spans expects at least one span; got none")
    ax = ensure_axes(ax, figsize=(11, 1.2 + 0.9 * len(ranks)))
    kinds = {
        "forward": (BLUE, "", "forward"),
        "backward": (SKY, "", "backward"),
        "gather": (ORANGE, "//", "gather parameters"),
        "reduce": (PURPLE, "\\\\", "reduce-scatter gradients"),
    }
    seen = set()
    for rank, done in enumerate(ranks):
        for span in done:
            kind = span.name.partition(" ")[0]
            colour, hatch, label = kinds.get(kind, (GREY, "", kind))
            y = rank + (-0.2 if span.lane == "compute" else 0.2)
            ax.barh(y, 1e3 * (span.end - span.begin), 0.36, 1e3 * span.begin, color=colour,
                    hatch=hatch, edgecolor="white", linewidth=0.6,
                    label=None if kind in seen else label)  # fmt: skip
            seen.add(kind)
    ax.set_yticks(range(len(ranks)), [f"rank {rank}" for rank in range(len(ranks))])
    ax.set_ylim(len(ranks) - 0.45, -0.55)
    ax.set_xlabel("time since the step began [ms]")
    ax.grid(visible=False, axis="y")
    ax.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=12)
    if title:
        ax.set_title(title, pad=30)
    return ax


def steps(
    plans: Sequence[Any], measured: Sequence[float] | None = None, ax: Axes | None = None
) -> Axes:
    """Draw what a predicted step is made of, and what was measured.

    Parameters
    ----------
    plans : sequence of helpers.sharded.planner.Plan
        One bar each.
    measured : sequence of float, optional
        Seconds of each.
    ax : matplotlib.axes.Axes, optional
        Where to draw: by default in a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        What was drawn in.
    """
    ax = ensure_axes(ax, figsize=(10, 1.4 + 0.5 * len(plans)))
    for row, plan in enumerate(plans):
        left = 0.0
        for name, colour, hatch in WORK:
            width = 1e3 * getattr(plan, name)
            ax.barh(row, width, 0.62, left, color=colour, hatch=hatch, edgecolor="white",
                    label=name if row == 0 else None)  # fmt: skip
            left += width
    if measured is not None:
        ax.plot([1e3 * t for t in measured], range(len(measured)), "D", color=BLACK,
                linestyle="none", markersize=8, label="measured")  # fmt: skip
    ax.set_yticks(range(len(plans)), [str(plan.layout) for plan in plans])
    ax.set_ylim(len(plans) - 0.5, -0.5)
    ax.set(xlabel="a step [ms], predicted", ylabel="data × pipeline × tensor")
    ax.grid(visible=False, axis="y")
    ax.legend(ncols=6, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=12)
    return ax


def experts(counts: Mapping[str, Sequence[int]], capacity: int, ax: Axes | None = None) -> Axes:
    """Draw how many tokens chose each expert, and how many it takes.

    Parameters
    ----------
    counts : mapping of str to sequence of int
        A name → tokens of each expert.
    capacity : int
        Tokens that one takes.
    ax : matplotlib.axes.Axes, optional
        Where to draw: by default in a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        What was drawn in.
    """
    ax = ensure_axes(ax, figsize=(9, 3.4))
    width = 0.8 / len(counts)
    for k, ((name, each), colour, hatch) in enumerate(
        zip(counts.items(), (ORANGE, BLUE, GREEN), ("//", "", ".."), strict=False)
    ):
        places = [e + (k - (len(counts) - 1) / 2) * width for e in range(len(each))]
        ax.bar(places, each, width * 0.92, color=colour, hatch=hatch, edgecolor="white",
               label=name)  # fmt: skip
    ax.axhline(capacity, color=BLACK, linestyle="--", label=f"capacity, {capacity}")
    ax.set(xlabel="expert", ylabel="tokens that chose it")
    ax.set_xticks(range(len(next(iter(counts.values())))))
    ax.grid(visible=False, axis="x")
    ax.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=12)
    return ax
