"""Pictures of notebook 12: bits of a quantised vector, exchanges, links, who is waited for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from helpers.plots.style import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    VERMILION,
    colour,
    ensure_axes,
    few_decades,
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
        ax.set_yticks(
            [level / s for level in every], [f"{level}/{s}".replace("-", "−") for level in every]
        )
    ax.bar(places, v / (np.linalg.norm(v) or 1.0), 0.5, color=BLUE, label="v ÷ ‖v‖")
    ax.plot(places, np.asarray(levels) / s, "D", color=VERMILION, markersize=9, label="rounded to")
    names = []
    for value, level in zip(v, levels, strict=True):
        names.append(f"{int(value < 0)}\n{abs(int(level)):0{width}b}")
    ax.set_xticks(places, names, family="monospace")
    ax.set(ylim=(-1.08, 1.08), ylabel="part of the norm", xlabel="code: sign, and level in binary")
    ax.grid(visible=s < 10, axis="y")  # a line for each level
    ax.grid(visible=False, axis="x")
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
    ax.legend(loc="lower right", frameon=True, framealpha=1, edgecolor="white")
    return ax


def waits(
    workers: int,
    predicted: Sequence[float],
    measured: Mapping[int, float] | None = None,
    chosen: int | None = None,
):
    """Draw seconds of a step (left) and gradients per second (right) against b.

    ``predicted`` has a value for each b from 0; ``measured`` b → seconds; ``chosen`` is marked.
    """
    from matplotlib.ticker import MaxNLocator

    axes = panels(2, figsize=(10, 3.8))
    told = "predicted and measured" if measured else "predicted"
    axes[0].figure.set_label(f"What b backup workers save, and what they cost, {told}")
    b = np.arange(len(predicted))
    needed = workers - b
    for ax, ours, label in (
        (axes[0], 1e3 * np.asarray(predicted), "milliseconds of a step"),
        (axes[1], needed / np.asarray(predicted), "gradients used per second"),
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
    """Draw seconds of a training for each link and scheme: measured (marks) and predicted (dashes).

    ``rows`` are those of compress_training or compress_text, ``sent`` the bytes of each scheme's
    step. Predicted are the steps that the row says, each of its pace and those bytes at the link's
    rate. The measured seconds stand above each mark. A scheme that did not get there is left out.
    Returns the axes.
    """
    ax = ensure_axes(ax, figsize=(9, 5))
    names = list(dict.fromkeys(row.parameters["scheme"] for row in rows))
    ticks = sorted({(row.parameters["rate"], row.parameters["link"]) for row in rows})
    places = {rate: k for k, (rate, _) in enumerate(ticks)}
    for i, name in enumerate(names):
        mine = [r for r in rows if r.parameters["scheme"] == name and r.parameters["steps"]]
        aside = 0.84 * ((i + 0.5) / len(names) - 0.5)  # schemes stand side by side at each link
        at = [places[row.parameters["rate"]] + aside for row in mine]
        ax.plot(
            at, [_predicted(row, sent[name]) for row in mine], "_", color=BLACK, markersize=22,
            markeredgewidth=3, zorder=3,
        )  # fmt: skip
        shade = VERMILION if name == "float32" else colour(i - 1)
        look = {"color": shade, "marker": marker(i), "markersize": 13, "markeredgecolor": "white"}
        ax.plot(at, [row.value for row in mine], linestyle="none", label=name, **look)
        for x, row in zip(at, mine, strict=True):
            note(ax, f"{row.value:.2g}", (x, row.value), (0, 11), ha="center")
    ax.plot([], [], "_", color=BLACK, markersize=22, markeredgewidth=3, label="predicted")
    for between in range(1, len(ticks)):
        ax.axvline(between - 0.5, color="#DDDDDD", linewidth=1)
    ax.set(yscale="log", xlim=(-0.5, len(ticks) - 0.5), ylabel=rows[0].name, title=title)
    ax.set_xticks(range(len(ticks)), [link for _, link in ticks])
    ax.tick_params(axis="x", length=0)
    ax.grid(visible=False, axis="x")
    few_decades(ax.yaxis)
    ax.minorticks_off()
    return ax


def _predicted(row: Row, nbytes: float) -> float:
    """Seconds of a training by its steps, their pace, and the bytes that a rank sends in each."""
    from helpers.cluster import Network

    given = row.parameters
    return given["steps"] * (given["pace"] + nbytes / Network(2, rate=given["rate"]).payload)


def knee(fewest: Mapping[int, float], least: float, critical: float):
    """Draw steps to a target over the size of the batch, and the curve fitted to them."""
    ax = ensure_axes(figsize=(9, 4.5))
    ax.figure.set_label("Steps to 88 % by the size of the batch")
    smallest, sizes = min(fewest), np.geomspace(min(fewest), max(fewest))
    ax.plot(list(fewest), list(fewest.values()), "o", color=ORANGE, markersize=12,
            label="measured", zorder=3)  # fmt: skip
    ax.plot(sizes, least * (1 + critical / sizes), "-", marker="", color=BLUE, label="fitted")
    ax.plot(sizes, fewest[smallest] * smallest / sizes, "--", marker="", color=GREY,
            label="half the steps for twice B")  # fmt: skip
    ax.axvline(critical, color=GREEN, linestyle=":", label=f"critical batch, {critical:.0f}")
    ax.set(xscale="log", yscale="log", xlabel="batch B (samples)", ylabel="steps to 88 %")
    ax.set_ylim(min(fewest.values()) / 2, 2 * max(fewest.values()))
    ax.set_xticks(list(fewest), list(map(str, fewest)))
    few_decades(ax.yaxis)
    ax.minorticks_off()
    ax.legend(frameon=True, framealpha=1, edgecolor="white")
    return ax


def stretches(ends: Sequence[int], scales: Sequence[float], critical: float):
    """Draw the noise scale of each stretch of a training, from one end to the next."""
    ax = ensure_axes(figsize=(9, 4))
    ax.figure.set_label("The noise scale grows while the model trains")
    ax.step(ends, [scales[0], *scales], where="pre", color=BLUE, marker="", label="noise scale")
    for (begin, end), scale in zip(pairwise(ends), scales, strict=True):
        note(ax, f"{scale:.0f}", ((begin + end) / 2, scale), (0, -6), ha="center", va="top",
             fontsize=15)  # fmt: skip
    ax.axhline(critical, color=GREEN, linestyle=":", label="critical batch of the knee")
    ax.set(yscale="log", xlabel="step", ylabel="noise scale [samples]")
    ax.set_ylim(min(scales) / 2, 1.5 * max(scales))
    few_decades(ax.yaxis)
    ax.minorticks_off()
    ax.legend(loc="lower right")
    return ax
