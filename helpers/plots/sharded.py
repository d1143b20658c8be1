"""Pictures of a model on many ranks: who keeps what, how a pair is cut, what a step is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from helpers.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PARTS = (
    ("parameter", style.BLUE, "", "parameters"),
    ("gradient", style.ORANGE, "//", "gradients"),
    ("optimizer", style.GREEN, "..", "Adam's moments"),
)
RANKS = (style.BLUE, style.ORANGE, style.GREEN, style.PURPLE)
WORK = (
    ("compute", style.BLUE, ""),
    ("bubble", style.GREY, "xx"),
    ("tensor", style.ORANGE, "//"),
    ("pipeline", style.GREEN, ".."),
    ("data", style.PURPLE, "\\\\"),
)


def stage_bytes(formula: Sequence[Mapping[str, float]]) -> Axes:
    """Draw bytes for each parameter by ZeRO's stage: its "parameter", "gradient", "optimizer"."""
    ax = style.ensure_axes(figsize=(9, 3.8))
    ax.figure.set_label("Bytes for each parameter that a rank holds, by ZeRO's stage")
    for stage, held in enumerate(formula):
        bottom = 0.0
        for name, colour, hatch, label in PARTS:
            ax.bar(stage, held[name], 0.6, bottom, color=colour, hatch=hatch, edgecolor="white",
                   label=label if stage == 0 else None)  # fmt: skip
            bottom += held[name]
        ax.text(stage + 0.33, bottom, f"{bottom:.3g}", va="center", fontsize=13)
    ax.set(xticks=range(len(formula)), yticks=range(0, 17, 4), ylabel="bytes for each parameter")
    ax.set_xticklabels([f"stage {stage}" for stage in range(len(formula))])
    ax.grid(visible=False, axis="x")
    ax.legend(ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=12)
    return ax


def spans(runs: Mapping[str, tuple[float, Sequence[Any]]]) -> Axes:
    """Draw what a rank computed and sent in each run, from the step's beginning: two lanes for
    each.

    ``runs`` has under a run's name the seconds of the step, and its spans.
    """
    ax = style.ensure_axes(figsize=(11, 1.8 + 1.3 * len(runs)))
    ax.figure.set_label("What one rank computes and sends in a step")
    kinds = {
        "forward": (style.BLUE, "", "forward"),
        "backward": (style.ORANGE, "", "backward"),
        "gather": (style.GREEN, "//", "gather parameters"),
        "reduce": (style.PURPLE, "\\\\", "reduce-scatter gradients"),
    }
    lanes: dict[float, str] = {}
    seen = set()
    for row, (name, (took, done)) in enumerate(runs.items()):
        top, low = 1.5 * row, 1.5 * row + 0.5
        lanes |= {top: f"{name}: computes", low: "sends"}
        for span in done:
            kind = span.name.partition(" ")[0]
            colour, hatch, label = kinds.get(kind, (style.GREY, "", kind))
            ax.barh(top if span.lane == "compute" else low, 1e3 * (span.end - span.begin), 0.44,
                    1e3 * span.begin, color=colour, hatch=hatch, edgecolor="white", linewidth=0.6,
                    label=None if kind in seen else label)  # fmt: skip
            seen.add(kind)
        ax.plot([1e3 * took] * 2, [top - 0.35, low + 0.35], color=style.BLACK, lw=2, marker="")
        ax.text(1e3 * took, (top + low) / 2, f" {1e3 * took:.0f} ms", va="center")
    ax.set_yticks(list(lanes), list(lanes.values()))
    ax.set_ylim(max(lanes) + 0.45, -0.45)
    ax.set_xlim(0, 1.12e3 * max(took for took, _ in runs.values()))
    ax.set_xlabel("time since the step began [ms]")
    ax.grid(visible=False, axis="y")
    handles, names = ax.get_legend_handles_labels()
    order = [names.index(label) for _, _, label in kinds.values() if label in names]
    ax.legend([handles[i] for i in order], [names[i] for i in order], ncols=4, loc="lower center",
              bbox_to_anchor=(0.5, 1.0), fontsize=12)  # fmt: skip
    return ax


def scores(pieces: Mapping[str, Sequence[int]], positions: int) -> Sequence[Axes]:
    """Draw which rank computes which score of causal attention, and how many each piece has.

    ``pieces`` has under a name the rank of each piece of the sequence, in order.
    """
    axes = style.panels(len(pieces), figsize=(11, 4.6))
    axes[0].figure.set_label("Which rank needs the score of each query and key")
    for ax, (name, ranks) in zip(axes, pieces.items(), strict=True):
        length = positions // len(ranks)
        for piece, rank in enumerate(ranks):
            queries = range(piece * length, (piece + 1) * length)
            ax.barh(queries, [q + 1 for q in queries], 1.0, color=RANKS[rank], lw=0)
            middle = sum(queries) / length
            count = sum(q + 1 for q in queries)
            ax.text(queries[-1] + 2, middle, f"{count} scores", va="center")
        places = [(piece + 0.5) * length - 0.5 for piece in range(len(ranks))]
        ax.set_yticks(places, [f"rank {rank}" for rank in ranks])
        each = Counter(dict.fromkeys(ranks, 0))
        for query in range(positions):
            each[ranks[query // length]] += query + 1
        least, most = min(each.values()), max(each.values())
        said = f"{most}" if least == most else f"{least} to {most}"
        ax.set_title(f"{name}: {said} for a rank")
        ax.set(xlim=(0, 1.35 * positions), ylim=(positions - 0.5, -0.5))
        ax.set(xlabel="keys", xticks=range(0, positions + 1, positions // 4))
        ax.grid(visible=False)
    axes[0].set_ylabel("queries")
    return axes


def steps(plans: Sequence[Any], measured: Sequence[float] | None = None) -> Axes:
    """Draw what a predicted step is made of, and the seconds that were measured."""
    ax = style.ensure_axes(figsize=(10, 1.4 + 0.5 * len(plans)))
    longest = 1e3 * max(measured or [0.0])
    for row, plan in enumerate(plans):
        left = 0.0
        for name, colour, hatch in WORK:
            width = 1e3 * getattr(plan, name)
            ax.barh(row, width, 0.62, left, color=colour, hatch=hatch, edgecolor="white",
                    label=name if row == 0 else None)  # fmt: skip
            left += width
        longest = max(longest, left)
    if measured is not None:
        ax.plot([1e3 * t for t in measured], range(len(measured)), "D", color=style.BLACK,
                linestyle="none", markersize=9, markeredgecolor="white", markeredgewidth=1.5,
                label="measured")  # fmt: skip
    ax.set_yticks(range(len(plans)), [str(plan.layout) for plan in plans])
    ax.set_ylim(len(plans) - 0.5, -0.5)
    ax.figure.set_label("A step of each layout: predicted parts, and measured")
    ax.set(xlabel="time of a step [ms]", ylabel="data × pipeline × tensor")
    ax.set_xlim(0, 1.05 * longest)
    ax.grid(visible=False, axis="y")
    ax.legend(ncols=6, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=12)
    return ax


def pair(ranks: int) -> Axes:
    """Draw two matrices cut over 4 ranks at most, the first by columns and the second by rows."""
    from matplotlib.patches import Rectangle

    ax = style.ensure_axes(figsize=(11, 3.6))
    ax.figure.set_label(f"Two products in sequence, cut over {ranks} ranks")
    shades, left = RANKS[:ranks], 0.0
    for name, width, height, across, after in (
        ("$x$", 3.0, 2.0, None, "×"),
        ("$U$", 6.0, 3.0, True, "→"),
        ("$\\varphi(xU)$", 6.0, 2.0, True, "×"),
        ("$W$", 3.0, 6.0, False, "→"),
        ("$y$, a sum over ranks", 3.0, 2.0, None, ""),
    ):
        parts = 1 if across is None else ranks
        for part in range(parts):
            w, h = (width / parts, height) if across else (width, height / parts)
            x = left + (part * w if across else 0)
            y = height / 2 - h if across else height / 2 - (part + 1) * h
            shade = style.GREY if across is None else shades[part]
            ax.add_patch(Rectangle((x, y), w, h, facecolor=shade, edgecolor="white", linewidth=2))
            said = "all ranks" if across is None else f"rank {part}"
            ax.text(x + w / 2, y + h / 2, said, ha="center", va="center", weight="bold",
                    color=style.ink(shade))  # fmt: skip
        ax.text(left + width / 2, height / 2 + 0.25, name, ha="center", va="bottom")
        ax.text(left + width + 0.75, 0, after, ha="center", va="center", fontsize=18)
        left += width + 1.5
    ax.set(xlim=(-0.5, left - 1), ylim=(-3.3, 4), aspect="equal")
    ax.axis("off")
    return ax
