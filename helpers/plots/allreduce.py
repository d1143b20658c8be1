"""Pictures of 08 and A3: an allreduce's model, how far it is off, many ranks, a ring on hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from matplotlib.patches import FancyBboxPatch

from helpers.plots.costs import fine, limit, look, shown, times_by_ranks, times_by_size
from helpers.plots.style import GREY, VERMILION, arrow, ensure_axes, panels, plain_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from helpers.collectives.cost import Machine

GOOD = 2.0  # the factor by which a good model of a message's time may be off


def bytes_and_steps(
    ranks: Sequence[int], sent: Sequence[float], steps: Mapping[str, Sequence[int]]
) -> tuple[Axes, Axes]:
    """Draw the bytes that each rank of a ring sends (÷ K), and the steps of some algorithms."""
    left, right = panels(2, figsize=(9.5, 4))
    left.plot(ranks, sent, **look("ring"))
    limit(left, 2.0, "limit: 2 K")
    left.set(ylabel="bytes sent by each rank ÷ K", ylim=(0, 2.3))
    for name, each in steps.items():
        right.plot(ranks, each, label=shown(name), **look(name))
    right.set(ylabel="steps, one after another", yscale="log")
    right.legend(loc="center left")
    for ax in (left, right):
        ax.set_xscale("log", base=2)
        ax.set_xlabel("number of ranks, N")
    left.figure.set_label("The ring's bytes become flat, its steps do not")
    return left, right


def with_model(
    sizes: Sequence[int],
    measured: Mapping[str, Sequence[float]],
    models: Mapping[str, Callable[[float], float]],
    lines: str = "predicted",
) -> Axes:
    """Draw measured seconds as marks, and the models, functions of the size in bytes, as lines."""
    many = fine(sizes)
    said = {name: [model(size) for size in many] for name, model in models.items()}
    return times_by_size(sizes, measured, said, at=many, lines=lines)


def off_by_size(
    sizes: Sequence[int],
    measured: Mapping[str, Sequence[float]],
    models: Mapping[str, Callable[[float], float]],
) -> tuple[Axes, dict[str, list[float]]]:
    """Draw measured ÷ predicted for each size; return the ratios of each name, too."""
    ratios = {
        name: [took / model(size) for size, took in zip(sizes, measured[name], strict=True)]
        for name, model in models.items()
    }
    ax = ensure_axes(figsize=(9, 4))
    ax.axhspan(1 / GOOD, GOOD, color=GREY, alpha=0.2, label="between a half and two")
    ax.axhline(1, color=GREY, linestyle="--")
    for name, each in ratios.items():
        ax.plot(sizes, each, label=shown(name), **look(name))
    ax.set(xscale="log", yscale="log", xlabel="size of the array, K [bytes]")
    ax.set(ylabel="measured ÷ predicted time")
    low, high = ax.get_ylim()
    ax.set_ylim(min(low, 0.4), max(high, 2.5))
    plain_ticks(ax.yaxis)
    ax.legend(fontsize=12, loc="upper left", bbox_to_anchor=(1, 1))
    ax.figure.set_label("How far the model is off: measured ÷ predicted time of each allreduce")
    return ax, ratios


def growing(machines: Sequence[Machine], arrays: Mapping[str, float]) -> Sequence[Axes]:
    """Draw the predicted time on larger and larger machines, a panel for each array's bytes."""
    axes = panels(len(arrays), figsize=(10, 4.6), sharey=True)
    ranks, ways = [machine.ranks for machine in machines], [m.ways() for m in machines]
    for ax, (name, K) in zip(axes, arrays.items(), strict=True):
        times = {way: [each[way].at(K) for each in ways] for way in ways[0]}
        times_by_ranks(ranks, times, ax).set_title(f"K = {name}")
    for ax in axes[1:]:
        if legend := ax.get_legend():
            legend.remove()
        ax.set_ylabel("")
    return axes


def where_faster(sizes: Sequence[int], one: Sequence[float], other: Sequence[float]) -> str:
    """Write the sizes, in bytes, at which the one takes less time than the other.

    >>> where_faster([1024, 4096, 2**20], [1.0, 2.0, 3.0], [2.0, 2.0, 4.0])
    '1 KB, 1 MB'
    """
    ahead = zip(sizes, one, other, strict=True)
    return ", ".join(written(K) for K, mine, theirs in ahead if mine < theirs) or "no size"


def written(K: float) -> str:
    """Write a number of bytes in KB or MB, of 2^10 and 2^20 bytes."""
    return f"{K / 2**10:.0f} KB" if K < 2**20 else f"{K / 2**20:.0f} MB"


def ring_over_hosts(placements: Mapping[str, Sequence[int]]) -> Sequence[Axes]:
    """Draw, for each placement, the hosts of a ring's ranks and the messages of one step.

    A placement names the host of each rank. Messages that leave a host are coloured.
    """
    axes = panels(len(placements), figsize=(9.5, 3.2))
    axes[0].figure.set_label("One step of a ring on two hosts: which messages leave their host")
    for ax, (name, hosts) in zip(axes, placements.items(), strict=True):
        at = [  # odd hosts from below, so that the ring runs round
            (2.0 * host, -(hosts[rank + 1 :] if host % 2 else hosts[:rank]).count(host))
            for rank, host in enumerate(hosts)
        ]
        for host in sorted(set(hosts)):
            here = [y for rank, (_, y) in enumerate(at) if hosts[rank] == host]
            box = {"facecolor": "#EEEEEE", "edgecolor": GREY, "boxstyle": "round,pad=0.1"}
            size = 1.0, max(here) - min(here) + 0.7
            ax.add_patch(FancyBboxPatch((2.0 * host - 0.5, min(here) - 0.35), *size, **box))
            ax.text(2.0 * host, 0.6, f"host {host}", ha="center", va="bottom")
        for rank, (x, y) in enumerate(at):
            ax.text(x, y, f"rank {rank}", ha="center", va="center", zorder=4)
            right = (rank + 1) % len(at)
            leaves = hosts[rank] != hosts[right]
            way = "arc3" if leaves else "arc3,rad=0.25"
            bent = {"shrinkA": 26, "shrinkB": 26, "connectionstyle": way}
            shade, wide = (VERMILION, 3) if leaves else (GREY, 2)
            arrow(ax, at[rank], at[right], shade, "-|>", wide, **bent)
        out = max(sum(a == h != b for a, b in zip(hosts, [*hosts[1:], hosts[0]], strict=True))
                  for h in hosts)  # fmt: skip
        ax.set_title(f"{name}: each host sends {out}", loc="center")
        ax.set(xlim=(-0.8, 2.0 * max(hosts) + 0.8), ylim=(-1.6, 1.1))
        ax.axis("off")
    return axes
