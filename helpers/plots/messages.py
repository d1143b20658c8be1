"""Notebook 01's pictures: what messages do and cost, and how much time more ranks save."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.plots.style import (
    BLACK,
    BLUE,
    GREY,
    SEQUENTIAL,
    SKY,
    VERMILION,
    arrow,
    colour,
    ensure_axes,
    few_decades,
    panels,
)
from helpers.tracing.trace import Trace, rounds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from helpers.collectives.cost import Link

Law = Callable[[Any, float], Any]  # (numbers of ranks, serial fraction) -> speed-ups


def end_of_eager(sizes: Sequence[int], seconds: Sequence[float], late: float) -> Axes:
    """Draw how long ``Send`` takes by size, to a receiver that is ``late`` seconds late."""
    waited = min(size for size, t in zip(sizes, seconds, strict=True) if t > late / 5)
    eager = max(size for size in sizes if size < waited)
    ax = ensure_axes()
    ax.figure.set_label("How long Send takes: it jumps where eager ends")
    ax.loglog(sizes, 1e3 * np.asarray(seconds), marker="o")
    ax.axhline(1e3 * late, color=GREY, linestyle="--", label="the receiver comes")
    ax.axvspan(eager, waited, color=SKY, alpha=0.4, label="eager ends in this range")
    ax.set(xlabel="size of the message [bytes]", ylabel="Send returns after [ms]")
    ax.set_title(f"Eager up to {eager} B, rendezvous from {waited} B")
    ax.legend()
    return ax


def collectives(gave: Sequence[Any], got: Sequence[Mapping[str, Any]], listed: list) -> Figure:
    """Draw what each rank gives to six collectives, and what it gets; the root is rank 0.

    The root gives ``listed`` to a scatter. ``got[rank][name]`` is what a rank has afterwards.
    """
    import matplotlib.pyplot as plt

    ranks = len(gave)
    figure, axes = plt.subplots(2, 3, figsize=(10, 5))
    figure.set_label("What each rank gives to a collective, and what it gets (root: rank 0)")
    for ax, name in zip(axes.flat, got[0], strict=True):
        sources = range(1) if name in ("broadcast", "scatter") else range(ranks)
        targets = range(1) if name in ("gather", "reduce") else range(ranks)
        for one in range(ranks):
            if ax in axes[:, 0]:
                ax.text(-1.9, one, f"rank {one}", va="center")
            given = listed if name == "scatter" else gave[one]
            ax.text(-0.1, one, given if one in sources else "", ha="right", va="center")
            ax.text(1.1, one, got[one][name], va="center")
            for other in targets if one in sources else ():
                arrow(ax, (0, one), (1, other))
        ax.set_title(name, loc="center")
        ax.set(xlim=(-1.2, 2.2), ylim=(ranks - 0.5, -0.5))
        ax.axis("off")
    return figure


def broadcasts(traces: Mapping[str, Trace], ranks: int) -> Sequence[Axes]:
    """Draw each broadcast's messages by step; a rank's line is blue once it has the value."""
    axes = panels(len(traces), sharex=True, sharey=True, figsize=(10, 3.2))
    last = max(trace.steps() for trace in traces.values())
    for ax, (name, trace) in zip(axes, traces.items(), strict=True):
        ax.hlines(0, 0, last + 0.3, color=BLUE, linewidth=6)
        for message, step in zip(trace.messages, rounds(trace), strict=True):
            arrow(ax, (step - 1, message.source), (step, message.dest), BLACK, "-|>")
            ax.hlines(message.dest, step, last + 0.3, color=BLUE, linewidth=6)
        ax.set(title=f"{name}: {trace.steps()} steps", xlabel="step", xticks=range(last + 1))
    axes[0].set(ylabel="rank", yticks=range(ranks), ylim=(ranks - 0.6, -0.4))
    axes[0].figure.set_label("Who has rank 0's value after which step, one by one and by your tree")
    return axes


def message_times(samples: np.ndarray, link: Link) -> Axes:
    """Draw (bytes, seconds) of messages, the fitted line, and where its two parts are equal."""
    sizes, seconds = samples.T
    ax = ensure_axes()
    ax.figure.set_label("The time of a message by its size, and the line fitted to it")
    ax.loglog(sizes, 1e6 * seconds, "o", label="measured, one way")
    many = np.geomspace(sizes.min(), sizes.max(), 200)
    ax.loglog(
        many, 1e6 * (link.alpha + link.beta * many), "-", marker="", label=r"fit $\alpha + \beta m$"
    )
    where = link.alpha * link.bandwidth
    ax.axvline(where, color=GREY, linestyle="--", label=r"$\alpha = \beta m$")
    ax.set(xlabel="size of the message m [bytes]", ylabel="time [µs]", title=f"{link}")
    few_decades(ax.yaxis)
    ax.legend()
    return ax


def speed_ups(measured: Mapping[int, float], law: Law, serial: float, cores: int) -> Axes:
    """Draw measured speed-ups by number of ranks, and Amdahl's law with a core each and without."""
    most = max(measured)
    N = np.linspace(1, most, 50)
    ax = ensure_axes(figsize=(9, 5))
    ax.figure.set_label("Speed-up with more ranks, measured and by Amdahl's law")
    ax.plot(N, N, linestyle=":", marker="", color=GREY, label="ideal: N")
    ax.plot(N, law(N, serial), marker="", label=f"Amdahl, s = {serial:.2f}")
    if cores < most:
        y, c = law(np.minimum(N, cores), serial), colour(2)
        ax.plot(N, y, linestyle="-.", marker="", color=c, label=f"the same on {cores} cores")
    ax.plot(list(measured), list(measured.values()), "o", ms=12, color=colour(1), label="measured")
    ax.set(xlabel="ranks N", xticks=list(measured), ylabel="speed-up $S_N$")
    ax.set_title("The picture on N ranks")
    ax.legend(loc="upper left")
    return ax


def laws(named: Mapping[str, Law], s: float) -> Axes:
    """Draw speed-ups up to 10 000 ranks by some laws, for one serial fraction s."""
    N = np.logspace(0, 4, 100)
    ax = ensure_axes(figsize=(9, 4.2))
    ax.figure.set_label("Speed-up by the laws of Amdahl and Gustafson")
    ax.loglog(N, N, linestyle=":", linewidth=5, marker="", color=GREY, label="ideal")
    for (name, law), line in zip(named.items(), ("-", "-."), strict=True):
        ax.loglog(N, law(N, s), linestyle=line, marker="", label=name)
    ax.axhline(1 / s, color=VERMILION, linestyle="--", label=f"1/s = {1 / s:.0f}")
    ax.set(xlabel="ranks N", ylabel="speed-up", title=f"Serial fraction s = {s:.2g}", ylim=(1, 2e4))
    ax.legend()
    return ax


def mandelbrot_set(image: np.ndarray, ranks: int) -> Axes:
    """Draw the picture that the ranks computed in rows."""
    ax = ensure_axes(figsize=(7, 6))
    ax.imshow(image, cmap=SEQUENTIAL, extent=(-2.0, 0.6, -1.2, 1.2))
    ax.figure.set_label("The Mandelbrot set by all ranks. Yellow: z stays small for all 60 rounds")
    title = f"Each of {ranks} ranks computed every {ranks}th row"
    ax.set(xlabel="real part of c", ylabel="imaginary part of c", title=title)
    ax.grid(False)
    return ax


def boards(generations: Mapping[str, Sequence[np.ndarray]]) -> Sequence[Axes]:
    """Draw boards of the Game of Life, each given as the ranks' rows, with the ranks' borders."""
    axes = panels(len(generations), figsize=(10, 3.9))
    axes[0].figure.set_label("A glider crosses from rank to rank")
    for ax, (title, parts) in zip(axes, generations.items(), strict=True):
        ax.imshow(np.vstack(parts), cmap="gray_r")
        borders = np.cumsum([0, *map(len, parts)])
        for rank, first in enumerate(borders[:-1]):
            if rank:
                ax.axhline(first - 0.5, color=VERMILION, linestyle="--", linewidth=2)
            ax.text(15, first + 1.5, f"rank {rank}", ha="right", va="center")
        ax.set(title=title, xlabel="column", ylabel="row")
        ax.grid(False)
    return axes
