"""Pictures of training on several ranks: losses on two axes, staleness, when replicas pay."""

from __future__ import annotations

import numpy as np

from helpers.plots.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    SKY,
    VERMILION,
    colour,
    ensure_axes,
    ensure_panels,
)

_STYLES = ("-", "--", "-.", ":")


def losses(histories, window: int = 60, axes=None):
    """Draw each run's loss against seconds (left) and against updates (right); return the axes.

    ``histories`` are :class:`helpers.data_parallel.history.History`. Each is averaged over its last
    ``window`` *gradients*, however many updates those are: an update of R gradients is less noisy.
    Raises ValueError for an empty list.
    """
    if not histories:
        raise ValueError("losses expects at least one history; got none")
    axes = ensure_panels(axes, 2, figsize=(11, 4.6), sharey=True)
    for i, history in enumerate(histories):
        smooth = history.smooth(max(1, window * history.updates // max(1, history.gradients)))
        look = {"color": colour(i), "linestyle": _STYLES[i % 4], "marker": "", "linewidth": 2.4}
        axes[0].plot(history.seconds, smooth, label=history.scheme, **look)
        axes[1].plot(np.arange(1, history.updates + 1), smooth, label=history.scheme, **look)
    axes[0].set(xlabel="seconds since all ranks began", ylabel="training loss (cross-entropy)")
    axes[1].set(xlabel="updates of the parameters")
    axes[0].set_yscale("log")
    axes[0].set_title("what you wait for")
    axes[1].set_title("what an update is worth")
    axes[1].legend()
    return axes


def staleness(history, ax=None):
    """Draw how many updates old the parameters behind each gradient were, one bar per worker."""
    if not history.updates:
        raise ValueError(f"the run {history.scheme!r} has no update to draw")
    ax = ensure_axes(ax, figsize=(8, 4))
    stale, workers = np.array(history.staleness), np.array(history.workers)
    bins = np.arange(stale.max() + 2)
    names = sorted(set(history.workers))
    bottom = np.zeros(len(bins) - 1)
    for i, worker in enumerate(names):
        counts = np.histogram(stale[workers == worker], bins)[0]
        label = f"rank {worker}" if worker >= 0 else "all ranks"
        ax.bar(bins[:-1], counts, 0.8, bottom=bottom, color=colour(i), label=label)
        bottom += counts
    ax.axvline(stale.mean(), color=BLACK, linestyle="--", linewidth=1.8)
    ax.annotate(
        f"mean {stale.mean():.2f}",
        (stale.mean(), bottom.max()),
        xytext=(6, -4),
        textcoords="offset points",
        va="top",
    )
    ax.set(xlabel="staleness: updates since the parameters were fetched", ylabel="gradients")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend()
    return ax


def crossing(points, cores: int, predicted: float | None = None, axes=None):
    """Draw T_sync / T_comp against R − 1 (left) and the speed-up, predicted and measured (right).

    ``points`` are :class:`helpers.data_parallel.time_model.Point` of several batch sizes, ranks and
    names. Beyond ``cores`` ranks the model's assumption of a core for each fails: those are drawn
    open.
    ``predicted`` (samples) is a batch to be marked on the left.
    """
    axes = ensure_panels(axes, 2, figsize=(11, 4.8))
    for i, (name, ranks) in enumerate(sorted({(point.name, point.ranks) for point in points})):
        chosen = sorted((p for p in points if (p.name, p.ranks) == (name, ranks)), key=_batch)
        batch = [p.batch for p in chosen]
        face = colour(i) if ranks <= cores else "white"
        look = {"color": colour(i), "markerfacecolor": face, "marker": "os^Dv"[i % 5]}
        ratio = [p.synchronize / p.alone / (ranks - 1) for p in chosen]
        axes[0].plot(batch, ratio, label=f"{name}, R = {ranks}", **look)
        axes[1].plot(batch, [p.measured for p in chosen], label="measured", **look)
        look |= {"linestyle": "--", "marker": ""}
        axes[1].plot(batch, [p.predicted for p in chosen], label="predicted", **look)
    if predicted is not None:
        axes[0].axvline(predicted, color=BLACK, linestyle=":", linewidth=1.8)
        axes[0].annotate(
            f"your B = {predicted:g}",
            (predicted, 0.02),
            xycoords=("data", "axes fraction"),
            xytext=(5, 0),
            textcoords="offset points",
        )
    for ax in axes:
        ax.axhline(1.0, color=GREY, linewidth=1.6)
        ax.set_xscale("log", base=2)
        ax.set_xlabel("batch B of one replica (samples)")
    axes[0].set_yscale("log")
    axes[0].set_ylabel("(T_sync / T_comp) / (R − 1)")
    axes[0].set_title("below 1 the replicas should pay")
    axes[0].legend(fontsize=10, loc="upper right")
    axes[1].set_ylabel("samples per second against one process")
    axes[1].set_title("measured (marks), predicted (dashed)")
    return axes


def _batch(point) -> int:
    return point.batch


def schemes(ax=None):
    """Draw who sends what to whom: without a server, with one, and asynchronously."""
    ax = ensure_axes(ax, figsize=(11, 3.4))
    ax.set_axis_off()
    ax.set(xlim=(0, 12), ylim=(0, 3.6))
    titles = ("in step, no server", "in step, a server", "out of step, a server")
    for block, title in enumerate(titles):
        left = 4 * block
        ax.text(left + 1.85, 3.35, title, ha="center", weight="bold")
        spots = [(left + 0.6 + 1.25 * i, 0.7) for i in range(3)]
        for number, (x, y) in enumerate(spots):
            label = f"replica\n{number}" if block == 0 else f"worker\n{number + 1}"
            _box(ax, x, y, label, SKY)
        if block == 0:
            for a, b in ((0, 1), (1, 2)):
                _arrow(ax, (spots[a][0] + 0.45, 0.7), (spots[b][0] - 0.45, 0.7), "<->", VERMILION)
            ax.text(left + 1.85, 1.75, "all add up\nall gradients", ha="center", color=VERMILION)
            continue
        _box(ax, left + 1.85, 2.45, "server", ORANGE)
        for number, (x, _) in enumerate(spots):
            shown = block == 1 or number == 1
            style = VERMILION if shown else GREY
            _arrow(ax, (x - 0.12, 1.08), (left + 1.63 + 0.1 * number, 2.06), "->", style)
            _arrow(ax, (left + 1.87 + 0.1 * number, 2.06), (x + 0.16, 1.08), "->", BLUE)
        note = "gradients up, all at once" if block == 1 else "one worker at a time"
        ax.text(left + 1.85, 0.02, note, ha="center", color=GREEN)
    return ax


def _box(ax, x: float, y: float, label: str, fill: str) -> None:
    box = {"boxstyle": "round,pad=0.35", "facecolor": fill, "edgecolor": BLACK}
    ax.text(x, y, label, ha="center", va="center", bbox=box, fontsize=11)


def _arrow(ax, begin, end, style: str, shade: str) -> None:
    ax.annotate(
        "",
        end,
        begin,
        arrowprops={"arrowstyle": style, "color": shade, "linewidth": 1.8, "shrinkA": 0},
    )
