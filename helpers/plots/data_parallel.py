"""Pictures of training on several ranks: losses, staleness, when replicas pay, who waits."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from helpers.plots.style import (
    BLACK,
    BLUE,
    GREY,
    ORANGE,
    SKY,
    VERMILION,
    arrow,
    colour,
    ensure_axes,
    few_decades,
    legible,
    note,
    panels,
)

if TYPE_CHECKING:
    from IPython.display import HTML

_STYLES = ("-", "--", "-.", ":")
_HATCHES = ("", "//", "..", "xx")
OWN = "\0"  # ends the button's name until the picture's own ending is known
LEFT, WIDTH, TOP, LANE, BAR = 150, 900, 56, 34, 22  # pixels
SLOWER = 8  # times slower than it was


def losses(histories):
    """Draw each run's loss against seconds (left) and against updates (right); return the axes.

    ``histories`` are :class:`helpers.data_parallel.history.History`. Each is averaged over its last
    60 *gradients*, however many updates those are: an update of R gradients is less noisy.
    """
    axes = panels(2, figsize=(11, 5.0), sharey=True)
    for i, history in enumerate(histories):
        smooth = history.smooth(max(1, 60 * history.updates // max(1, history.gradients)))
        look = {"color": colour(i), "linestyle": _STYLES[i % 4], "marker": "", "linewidth": 2.4}
        axes[0].plot(history.seconds, smooth, label=history.scheme, **look)
        axes[1].plot(np.arange(1, history.updates + 1), smooth, label=history.scheme, **look)
    axes[0].set(xlabel="time since all ranks began [s]", ylabel="training loss (cross-entropy)")
    axes[1].set(xlabel="updates of the parameters")
    axes[0].set_yscale("log")
    few_decades(axes[0].yaxis)
    axes[0].figure.set_label("The loss of each scheme by seconds and by updates")
    axes[0].set_title("by time")
    axes[1].set_title("by updates")
    # of the figure, below it: a panel would make room beside itself for a legend wider than it is
    axes[0].figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return axes


def staleness(history):
    """Draw how old each gradient was (left), and how old each rank's were on average (right)."""
    left, right = axes = panels(2, figsize=(11, 4), width_ratios=(3, 2))
    stale, workers = np.array(history.staleness), np.array(history.workers)
    bins = np.arange(stale.max() + 2)
    names = sorted(set(history.workers))
    bottom = np.zeros(len(bins) - 1)
    for i, worker in enumerate(names):
        mine = stale[workers == worker]
        counts = np.histogram(mine, bins)[0]
        label = f"rank {worker}" if worker >= 0 else "all ranks"
        look = {"color": colour(i), "hatch": _HATCHES[i % len(_HATCHES)], "edgecolor": "white"}
        left.bar(bins[:-1], counts, 0.8, bottom=bottom, label=label, **look)
        bars = right.bar([label], mine.mean(), 0.7, **look)
        right.bar_label(bars, [f"{mine.mean():.2f}\n{len(mine)} gradients"], fontsize=13)
        bottom += counts
    look = {"color": BLACK, "linestyle": "--", "linewidth": 1.8, "zorder": 0.5}  # behind bars
    left.axvline(stale.mean(), **look)
    left.set_ylim(0, 1.18 * bottom.max())
    left.text(stale.mean(), 1.1 * bottom.max(), f"  mean {stale.mean():.2f}")
    left.figure.set_label("How stale each gradient was")
    left.set(xlabel="staleness: updates since the parameters were fetched", ylabel="gradients")
    left.xaxis.get_major_locator().set_params(integer=True)
    left.legend()
    left.set_title("all gradients")
    right.set(ylabel="mean staleness [updates]", title="by the rank that computed them")
    right.margins(y=0.3)
    return axes


def crossing(points, cores: int, predicted: float | None = None):
    """Draw T_sync / T_comp against R − 1 (left) and the speed-up, predicted and measured (right).

    ``points`` are :class:`helpers.data_parallel.theory.time_model.Point` of several batch sizes,
    ranks and names. Beyond ``cores`` ranks the model's assumption of a core for each fails: those
    are drawn open.
    ``predicted`` (samples) is a batch to be marked on the left, where rings mark what was measured.
    """
    from helpers.data_parallel.theory.time_model import crossing_batch

    axes, crossings = panels(2, figsize=(11, 5.4)), []
    for i, (name, ranks) in enumerate(sorted({(point.name, point.ranks) for point in points})):
        chosen = sorted(
            (p for p in points if (p.name, p.ranks) == (name, ranks)), key=lambda p: p.batch
        )
        batch = [p.batch for p in chosen]
        face = colour(i) if ranks <= cores else "white"
        look = {"color": colour(i), "markerfacecolor": face, "marker": "os^Dv"[i % 5]}
        ratio = [p.synchronize / p.alone / (ranks - 1) for p in chosen]
        axes[0].plot(batch, ratio, label=f"{name}, R = {ranks}", **look)
        crossings.append((crossing_batch(batch, ratio, 2), colour(i)))
        axes[1].plot(batch, [p.measured for p in chosen], label="measured", **look)
        look |= {"linestyle": "--", "marker": ""}
        axes[1].plot(batch, [p.predicted for p in chosen], label="predicted", **look)
    if predicted is not None:
        axes[0].axvline(predicted, color=BLACK, linestyle=":", linewidth=1.8)
        at, inside = (predicted, 0.93), 1 if predicted < 8 else -1  # of the panel
        note(axes[0], f"your B = {predicted:g}", at, (5 * inside, 0),
             xycoords=("data", "axes fraction"), ha="left" if inside > 0 else "right")  # fmt: skip
    for at, shade in crossings:
        if at is not None:
            ring = {"markersize": 17, "markerfacecolor": "none", "markeredgewidth": 2}
            axes[0].plot(at, 1, "o", color=BLACK, zorder=4, **ring)
            place = {"ha": "left" if at < 8 else "right", "color": legible(shade)}
            place["bbox"] = {"facecolor": "white", "edgecolor": "none", "pad": 1}
            note(
                axes[0], f"ratio 1 at B = {at:.0f}", (at, 1), (12 if at < 8 else -12, -22), **place
            )
    batches = sorted({point.batch for point in points})
    for ax in axes:
        ax.axhline(1.0, color=GREY, linewidth=1.6)
        ax.set_xscale("log", base=2)
        ax.set_xticks(batches, batches)
        ax.set_xlabel("batch B of one replica [samples]")
    axes[0].set_yscale("log")
    axes[0].set_ylim(top=2 * axes[0].get_ylim()[1])  # room for the batch that was predicted
    axes[0].yaxis.set_major_formatter("{x:g}")
    few_decades(axes[0].yaxis)
    axes[0].set_ylabel(r"$T_\mathrm{sync} \,/\, T_\mathrm{comp} \,/\, (R - 1)$")
    axes[0].set_title("below 1 the replicas should pay")
    axes[0].figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    axes[1].set_ylabel("speed-up over one process")
    axes[1].set_title("measured (marks), predicted (dashed)")
    axes[0].figure.set_label("Where replicas pay; measured and predicted speed-up")
    return axes


def schemes():
    """Draw who sends what to whom: without a server, with one, and asynchronously."""
    ax = ensure_axes(figsize=(11, 3.9))
    ax.set_axis_off()
    ax.figure.set_label("Who sends what to whom, in three ways to train")
    ax.set(xlim=(-0.2, 12.8), ylim=(-0.1, 3.7))
    titles = ("synchronous, no server", "synchronous, a server", "asynchronous")
    for block, title in enumerate(titles):
        left, count = 4.4 * block, 4 if block == 0 else 3
        ax.text(left + 1.85, 3.45, title, ha="center", weight="bold")
        spots = [left + 0.65 + 2.4 * i / (count - 1) for i in range(count)]
        for number, x in enumerate(spots):
            label = f"rank\n{number if block == 0 else number + 1}"
            _box(ax, x, 0.75, label, SKY)
        if block == 0:
            ax.plot([left + 0.3, left + 3.4], [2.1, 2.1], color=VERMILION, linewidth=5)
            for x in spots:
                arrow(ax, (x, 1.25), (x, 2.0), VERMILION, "<->", 1.8)
            ax.text(left + 1.85, 2.4, "allreduce: the sum\nof all gradients", ha="center")
            ax.text(left + 1.85, 0, "everybody waits for everybody", ha="center")
            continue
        _box(ax, left + 1.85, 2.75, "rank 0: server", ORANGE)
        for number, x in enumerate(spots):
            if block == 2 and number != 1:
                continue  # only one worker talks at a time
            look = {"ends": "-|>", "width": 1.8}
            top = left + 1.25 + 0.6 * number
            arrow(ax, (x - 0.12, 1.25), (top - 0.12, 2.4), VERMILION, **look)
            arrow(ax, (top + 0.12, 2.4), (x + 0.12, 1.25), BLUE, linestyle="--", **look)
        note = "the server waits for all of them" if block == 1 else "one worker at a time"
        ax.text(left + 1.85, 0, note, ha="center")
    ax.text(5.0, 1.65, "gradient ↑", color=legible(VERMILION), ha="right")
    ax.text(7.35, 1.9, "↓ parameters", color=BLUE, ha="left")
    return ax


def _box(ax, x: float, y: float, label: str, fill: str) -> None:
    box = {"boxstyle": "round,pad=0.35", "facecolor": fill, "edgecolor": BLACK}
    ax.text(x, y, label, ha="center", va="center", bbox=box)


def waiting(
    recorded: Mapping[str, Sequence[Sequence[tuple[float, float]]]], late: int | None = None
) -> HTML:
    """Return when ranks computed, as SVG; what is blank between two gradients is waiting.

    Still at first, with everything in it; a click plays it, without a script. ValueError if a
    record has no gradient.

    ``recorded`` has for what it is, and for each rank, the beginnings and ends (s) of its
    gradients; a rank without any is a server. All are shown for as long as the shortest took.
    ``late`` is the rank that is drawn as the slow one.
    """
    from IPython.display import HTML
    from matplotlib.ticker import MaxNLocator

    for name, ranks in recorded.items():
        if not any(ranks):
            raise ValueError(f"waiting expects a gradient in each record; {name!r} has none")
    until = min(max(end for spans in ranks for _, end in spans) for ranks in recorded.values())
    scale = (WIDTH - LEFT - 20) / until
    parts, told, y = [], [], TOP
    for name, ranks in recorded.items():
        done = sum(end <= until + 1e-9 for spans in ranks for _, end in spans)
        said = f"{name}: {done} gradients in {until:.2f} s"
        told.append(said)
        parts.append(f'<text x="4" y="{y + 14}" font-weight="bold">{escape(said)}</text>')
        y += LANE - 6
        for rank, spans in enumerate(ranks):
            server = "" if spans else ": server"
            parts.append(f'<text x="4" y="{y + 16}">rank {rank}{server}</text>')
            parts.append(
                f'<path d="M{LEFT} {y + BAR // 2}H{WIDTH - 20}" stroke="#8c8c8c" stroke-width="1"/>'
            )
            colour = VERMILION if rank == late else BLUE
            parts += [
                _span(LEFT + begin * scale, y, (min(end, until) - begin) * scale, colour, begin,
                     min(end, until))
                for begin, end in spans if begin < until
            ]  # fmt: skip
            y += LANE
        y += 14
    for tick in MaxNLocator(6).tick_values(0, until):
        if tick <= until:
            place = f'x="{LEFT + tick * scale:.1f}" y="{y}" text-anchor="middle"'
            parts.append(f"<text {place}>{tick:.2g} s</text>")
    y += 14
    seconds = SLOWER * until
    cursor = (
        f'<path d="M{LEFT} {TOP}V{y - 14}" stroke="#000" stroke-width="2" opacity="0">'
        f'<set attributeName="opacity" to="1" begin="play{OWN}.click" dur="{seconds:.2f}s"/>'
        f'<animateTransform attributeName="transform" type="translate" from="0" '
        f'to="{until * scale:.1f}" begin="play{OWN}.click" dur="{seconds:.2f}s"/></path>'
    )
    text = "".join([_head(y, "; ".join(told)), *parts, cursor, "</svg>"])
    return HTML(text.replace(OWN, hashlib.sha256(text.encode()).hexdigest()[:8]))


def _head(height: int, label: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="course-figure" role="group" '
        f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" aria-label="{escape(label)}" '
        f'style="max-width: 100%; background: white; font: 17px sans-serif">'
        f'<g id="play{OWN}" style="cursor: pointer">'
        f'<rect x="4" y="6" width="330" height="36" rx="6" fill="{BLUE}"/>'
        f'<text x="18" y="30" fill="white">▶ play, {SLOWER} times slower than it was</text></g>'
    )


def _span(x: float, y: int, width: float, colour: str, begin: float, end: float) -> str:
    """One gradient: there from the first, and drawn again as time comes to it."""
    start = f"play{OWN}.click+{SLOWER * begin:.2f}s" if begin else f"play{OWN}.click"
    hidden = (
        f'<set attributeName="width" to="0" begin="play{OWN}.click" dur="{SLOWER * begin:.2f}s"/>'
        if begin
        else ""
    )
    return (
        f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{colour}" '
        f'stroke="white"><title>{1e3 * (end - begin):.0f} ms of computing</title>{hidden}'
        f'<animate attributeName="width" from="0" to="{width:.1f}" begin="{start}" '
        f'dur="{SLOWER * (end - begin):.2f}s"/></rect>'
    )
