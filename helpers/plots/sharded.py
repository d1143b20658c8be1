"""Pictures of a model on many ranks: who keeps what, how a pair is cut, what a step is made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from helpers.plots import style
from helpers.plots.web.page import embed
from helpers.sharded.mesh import Layout

if TYPE_CHECKING:
    from IPython.display import HTML
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
TALK = {  # how a rank's card is framed, and what is written in it: two lines
    "own": (style.BLACK, "", ("this rank", "")),
    "tensor": (style.ORANGE, "", ("same blocks:", "add activations")),
    "pipeline": (style.GREEN, "14 6", ("other blocks:", "pass activations")),
    "data": (style.PURPLE, "3 5", ("same part:", "average gradients")),
}


def mesh(layout: Layout, rank: int = 0, blocks: int = 4, parts: int = 4) -> HTML:
    """Return a picture to click: what each rank keeps in each layout, and whom it exchanges with.

    ``layout`` and ``rank`` are shown first; ``blocks`` and ``parts`` of a matrix can be cut.
    """
    n = layout.ranks
    sizes = [(p, t) for p in range(1, blocks + 1) for t in range(1, parts + 1)]
    sizes = [(p, t) for p, t in sizes if n % (p * t) == blocks % p == parts % t == 0]
    layouts = sorted((Layout(n // (p * t), p, t) for p, t in sizes), key=lambda one: -one.data)
    kinds = {name: {"colour": colour, "dash": dash, "words": words}
             for name, (colour, dash, words) in TALK.items()}  # fmt: skip
    data = {
        "layouts": {str(one): [_card(one, r, blocks, parts) for r in range(n)] for one in layouts},
        "layout": str(layout),
        "rank": rank,
        "blocks": blocks,
        "parts": parts,
        "kept": style.SKY,
        "kinds": kinds,
    }
    return embed("mesh", data)


def _card(layout: Layout, rank: int, blocks: int, parts: int) -> dict[str, Any]:
    """What a rank keeps, its partners by axis, and both as a sentence."""
    place, p, t = layout.place(rank), layout.pipeline, layout.tensor
    partners: dict[int, str] = {}
    said = [f"Rank {rank} keeps {f'1/{p * t} of' if p * t > 1 else 'all of'} the model."]
    for axis, (_, _, (_, verb)) in list(TALK.items())[1:]:
        (group,) = (group for group in layout.groups(axis) if rank in group)
        others = [other for other in group if other != rank]
        if axis == "pipeline":  # a stage sends to its neighbours alone
            others = [o for o in others if abs(layout.place(o)[axis] - place[axis]) == 1]
        partners |= dict.fromkeys(others, axis)
        if others:
            *most, last = map(str, others)
            named = f"ranks {', '.join(most)} and {last}" if most else f"rank {last}"
            said.append(f"With {named}: {verb}.")
    return {
        "rows": [place["pipeline"] * blocks // p, (place["pipeline"] + 1) * blocks // p],
        "columns": [place["tensor"] * parts // t, (place["tensor"] + 1) * parts // t],
        "partners": partners,
        "said": " ".join(said),
    }


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
        paper = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        ax.text(stage + 0.33, bottom, f"{bottom:.3g}", va="center", fontsize=13, bbox=paper)
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


def steps(plans: Sequence[Any], micro: Sequence[int], measured: Sequence[float]) -> Axes:
    """Draw what a predicted step of each plan is made of, and the seconds that were measured.

    ``micro`` are numbers of micro-batches; a ``measured`` of NaN is not drawn.
    """
    ax = style.ensure_axes(figsize=(10, 1.4 + 0.5 * len(plans)))
    longest = 1e3 * max(seconds for seconds in measured if seconds == seconds)
    for row, plan in enumerate(plans):
        left = 0.0
        for name, colour, hatch in WORK:
            width = 1e3 * getattr(plan, name)
            ax.barh(row, width, 0.62, left, color=colour, hatch=hatch, edgecolor="white",
                    label=name if row == 0 else None)  # fmt: skip
            left += width
        longest = max(longest, left)
    ax.plot([1e3 * t for t in measured], range(len(measured)), "D", color=style.BLACK,
            linestyle="none", markersize=9, markeredgecolor="white", markeredgewidth=1.5,
            label="measured")  # fmt: skip
    names = [f"{plan.layout}, m = {m}" for plan, m in zip(plans, micro, strict=True)]
    ax.set_yticks(range(len(plans)), names)
    ax.set_ylim(len(plans) - 0.5, -0.5)
    ax.figure.set_label("A step of each layout: predicted parts, and measured")
    ax.set_xlabel("time of a step [ms]")
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


def turns(ranks: int) -> Axes:
    """Draw whose keys and values each rank has at each step of a ring, and which it merges."""
    from matplotlib.patches import Rectangle

    ax = style.ensure_axes(figsize=(11, 1.15 * ranks + 0.6))
    ax.figure.set_label("Whose keys and values each rank holds at each step of ring attention")
    for rank in range(ranks):
        for step in range(ranks):
            owner = (rank - step) % ranks
            seen = owner <= rank
            fill, line = (RANKS[owner], "-") if seen else ("white", "--")
            box = Rectangle((step, rank), 0.68, 0.62, facecolor=fill, linewidth=2.5)
            box.set(edgecolor=RANKS[owner], linestyle=line)
            ax.add_patch(box)
            said = f"$K_{owner}, V_{owner}$\n" + ("merge" if seen else "skip")
            ax.text(step + 0.34, rank + 0.31, said, ha="center", va="center", fontsize=14,
                    color=style.ink(RANKS[owner]) if seen else style.BLACK)  # fmt: skip
            if step == ranks - 1:
                continue
            last = rank == ranks - 1  # its arrow leaves below, and comes in above rank 0
            end = (step + 0.84, rank + 0.85) if last else (step + 0.97, rank + 1.2)
            style.arrow(ax, (step + 0.71, rank + 0.45), end)
            if last:
                style.arrow(ax, (step + 0.84, -0.23), (step + 0.97, 0.2))
    ax.set_yticks([rank + 0.31 for rank in range(ranks)], [f"rank {r}" for r in range(ranks)])
    ax.set_xticks([step + 0.34 for step in range(ranks)], [f"step {s}" for s in range(ranks)])
    ax.set(xlim=(-0.05, ranks - 0.3), ylim=(ranks - 0.1, -0.3))
    ax.xaxis.tick_top()
    ax.tick_params(length=0, labelsize=14)
    ax.spines[:].set_visible(False)
    ax.grid(visible=False)
    return ax
