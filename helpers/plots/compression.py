"""Pictures of notebook 12: bits of a quantised vector, exchanges, links, who is waited for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from helpers.plots.style import (
    BLACK,
    BLUE,
    ORANGE,
    VERMILION,
    colour,
    ensure_axes,
    marker,
    note,
    panels,
)
from helpers.records import Row


def code(v: np.ndarray, levels: np.ndarray, s: int):
    """Draw values as parts of their norm, the levels they were rounded to, and each code's bits.

    ``v`` (n,) are values, ``levels`` (n,) whole numbers from −s to s. Returns the axes.
    """
    ax = ensure_axes(figsize=(10, 4.6))
    ax.figure.set_label("Numbers, the levels that they are rounded to, and the bits of each code")
    places, width = np.arange(len(v)), s.bit_length()
    if s < 10:  # the levels are the ticks
        every = range(-s, s + 1)
        ax.set_yticks([level / s for level in every], [f"{level}/{s}" for level in every])
    ax.bar(places, v / (np.linalg.norm(v) or 1.0), 0.5, color=BLUE, label="v ÷ ‖v‖")
    ax.plot(places, np.asarray(levels) / s, "D", color=VERMILION, markersize=9, label="rounded to")
    names = []
    for value, level in zip(v, levels, strict=True):
        names.append(f"{int(value < 0)}\n{abs(int(level)):0{width}b}")
    ax.set_xticks(places, names, family="monospace")
    ax.set(ylim=(-1.08, 1.08), ylabel="part of the norm", xlabel="code: sign, and level in binary")
    ax.grid(visible=False)
    ax.set_title(f"s = {s}: {1 + width} bits each, {2 * s + 1} different values")
    ax.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)  # not on the levels' lines
    return ax


def exchanges(measured: Mapping[str, float], predicted: Mapping[str, float], title: str):
    """Draw seconds of an exchange by scheme, with the prediction as a line across each bar."""
    from matplotlib.patheffects import withStroke

    halo = [withStroke(linewidth=7, foreground="white")]
    ax = ensure_axes(figsize=(9, 0.55 * len(measured) + 1.6))
    names = list(measured)[::-1]
    places = np.arange(len(names))
    ax.barh(places, [1e3 * measured[n] for n in names], 0.6, color=BLUE, label="measured")
    ax.plot(
        [1e3 * predicted[n] for n in names], places, "|", color=BLACK, markersize=22,
        markeredgewidth=3, label="predicted", path_effects=halo,
    )  # fmt: skip
    for place, name in zip(places, names, strict=True):  # right of the bar and of the line
        end = 1e3 * max(measured[name], predicted[name])
        note(ax, f"{1e3 * measured[name]:.2g}", (end, place), (12, 0), va="center")
    ax.set_yticks(places, names)
    ax.grid(visible=False, axis="y")
    ax.set(xlabel="milliseconds of one exchange", title=title)
    ax.margins(x=0.16)
    ax.legend(loc="lower right")
    return ax


def waits(
    workers: int,
    predicted: Sequence[float],
    measured: Mapping[int, float] | None = None,
    chosen: int | None = None,
):
    """Draw seconds of a step (left) and gradients in a second (right) against b.

    ``predicted`` has a value for each b from 0; ``measured`` b → seconds; ``chosen`` is marked.
    """
    from matplotlib.ticker import MaxNLocator

    axes = panels(2, figsize=(10, 3.8))
    axes[0].figure.set_label("What b backup workers save, and what they cost")
    b = np.arange(len(predicted))
    needed = workers - b
    for ax, ours, label in (
        (axes[0], 1e3 * np.asarray(predicted), "milliseconds of a step"),
        (axes[1], needed / np.asarray(predicted), "gradients used in a second"),
    ):
        ax.plot(b, ours, "-o", color=BLUE, label="predicted")
        if chosen is not None:
            ax.plot(chosen, ours[chosen], "o", color=ORANGE, markersize=14, label=f"b = {chosen}")
        ax.set(xlabel=f"backup workers b of W = {workers}", ylabel=label)
        ax.xaxis.set_major_locator(MaxNLocator(12, integer=True))
    for number, seconds in (measured or {}).items():
        label = "measured" if number == next(iter(measured or {})) else None
        axes[0].plot(number, 1e3 * seconds, "X", color=VERMILION, markersize=12, label=label)
        axes[1].plot(
            number, (workers - number) / seconds, "X", color=VERMILION, markersize=12, label=label
        )
    for ax in axes:
        ax.set_ylim(0, 1.12 * max(max(line.get_ydata()) for line in ax.lines))
    axes[0].legend()
    return axes


def links(rows: Sequence[Row], sent: Mapping[str, float], title: str, ax=None):
    """Draw seconds of a training by scheme at each link: measured (marks) and predicted (lines).

    ``rows`` are those of compress_training or compress_text, ``sent`` the bytes of each scheme's
    step. Predicted are the steps that the row says, each of its pace and those bytes at the link's
    rate. A scheme that did not get there is left out. Returns the axes.
    """
    ax = ensure_axes(ax, figsize=(9, 5))
    names = list(dict.fromkeys(row.parameters["scheme"] for row in rows))
    rates = np.geomspace(*(f(r.parameters["rate"] for r in rows) for f in (min, max)))
    for i, name in enumerate(names):
        mine = [r for r in rows if r.parameters["scheme"] == name and r.parameters["steps"]]
        if not mine:
            continue
        shade = BLACK if name == "float32" else colour(i - 1)
        points = sorted((r.parameters["rate"], r.value) for r in mine)
        look = {"color": shade, "markersize": 10, "markeredgecolor": "white", "linewidth": 2.0}
        look |= {"marker": marker(i), "linestyle": ("-", "--", "-.", ":")[i % 4]}
        ax.plot(*zip(*points, strict=True), **look | {"linestyle": "none"})
        given = mine[0].parameters
        seconds = [given["steps"] * (given["pace"] + sent[name] / _payload(rate)) for rate in rates]
        ax.plot(rates, seconds, markevery=[], label=name, **look)  # a mark in the legend alone
    ticks = sorted({(row.parameters["rate"], row.parameters["link"]) for row in rows})
    ax.set(xscale="log", yscale="log", xlabel="rate of the links", ylabel=rows[0].name, title=title)
    ax.set_xticks(*zip(*ticks, strict=True))
    ax.minorticks_off()
    most = max(row.value for row in rows)
    marks = [tick for tick in (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 500) if tick <= most]
    ax.set_yticks(marks, [str(tick) for tick in marks])
    ax.margins(x=0.09)
    return ax


def _payload(rate: float) -> float:
    """Bytes/s of a long message on a link."""
    from helpers.cluster import Network

    payload = Network(2, rate=rate).payload
    assert payload is not None
    return payload


def stragglers(samples: Mapping[str, np.ndarray]):
    """Draw when each worker's gradient was there in each step; a panel for each name.

    A sample is (steps, W) in seconds, as ``stragglers.sample`` makes it. Returns the axes.
    """
    axes = panels(len(samples), figsize=(11, 3.8), sharey=True)
    axes[0].figure.set_label("When each worker's gradient arrives, by step")
    for ax, (name, times) in zip(axes, samples.items(), strict=True):
        for worker, taken in enumerate(1e3 * np.asarray(times).T):
            look = {"color": colour(worker), "marker": marker(worker), "markersize": 6}
            ax.plot(taken, linestyle="none", label=f"worker {worker + 1}", **look)
        ax.set(xlabel="step", title=name)
    for ax in axes:  # last: a limit ends the scaling of the panels that share it
        ax.set_ylim(0, None)
    axes[0].set_ylabel("time until a gradient is there [ms]")
    axes[-1].legend(loc="upper left", bbox_to_anchor=(1, 1))
    return axes
