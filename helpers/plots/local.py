"""Pictures of replicas that go their own way: their drift, their paths, which H is fastest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from helpers.plots.style import BLACK, GREY, PALETTE, colour, few_decades, panels
from helpers.plots.web.page import embed

if TYPE_CHECKING:
    from IPython.display import HTML

_STYLES = ("-", "--", "-.", ":")
_MARKERS = "os^Dv"


def drift(curves):
    """Draw how far replicas are apart, step by step, beside what the noise predicts.

    ``curves`` are (name, steps, measured, predicted), the last None or an array; each has a panel.
    All share a logarithmic scale.
    """
    axes = panels(len(curves), sharey=True, figsize=(9.5, 4.8))
    for i, (ax, (name, steps, measured, predicted)) in enumerate(zip(axes, curves, strict=True)):
        ax.plot(steps, measured, "-", marker="", color=colour(i), label=name)
        if predicted is not None:  # wide and beneath: where both agree, both are seen
            ax.plot(steps, predicted, "-", marker="", color=GREY, linewidth=4, zorder=1.5,
                    label="predicted" if i == len(curves) - 1 else None)  # fmt: skip
        ax.set(xlabel="steps", yscale="log")
    few_decades(axes[0].yaxis)
    axes[0].figure.set_label("How far replicas are apart, measured and predicted")
    axes[0].set_ylabel("consensus distance Ξ")
    axes[0].figure.legend(loc="outside lower center", ncols=len(curves) + 1)
    return axes


def fastest(rows):
    """Draw seconds to a loss over H for each link, predicted (lines) and measured (markers).

    The fastest H is the measured one, or the predicted one where not every H was measured.
    ``rows`` are dicts with ``rate`` (bit/s), ``H``, ``predicted`` and ``measured`` (s, or None).
    """
    from helpers.cluster.start.network import readable

    (ax,) = axes = panels(1, figsize=(9.5, 4.8))
    for i, rate in enumerate(sorted({row["rate"] for row in rows})):
        mine = sorted((row for row in rows if row["rate"] == rate), key=lambda row: row["H"])
        H = [row["H"] for row in mine]
        ax.plot(H, [row["predicted"] for row in mine], _STYLES[i % 4], marker="", color=colour(i),
                label=f"{readable(rate)}, predicted")  # fmt: skip
        seen = [row for row in mine if row["measured"] is not None]
        look = {"linestyle": "", "color": colour(i), "markersize": 10}
        if seen:
            ax.plot([row["H"] for row in seen], [row["measured"] for row in seen], _MARKERS[i % 5],
                    label=f"{readable(rate)}, measured", **look)  # fmt: skip
        known = seen if len(seen) == len(mine) else mine
        best = min(known, key=lambda row: row["predicted" if known is mine else "measured"])
        ax.plot(best["H"], best["measured"] or best["predicted"], "o", markersize=20,
                markerfacecolor="none", color=BLACK)  # fmt: skip
    ax.plot([], [], "o", markersize=12, markerfacecolor="none", color=BLACK, label="the fastest H")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ticks = sorted({row["H"] for row in rows})
    ax.set_xticks(ticks, [str(H) for H in ticks])
    few_decades(ax.yaxis)
    ax.minorticks_off()
    known = " and measured" if any(row["measured"] is not None for row in rows) else ""
    ax.figure.set_label(f"Seconds to the loss by how often replicas meet, predicted{known}")
    ax.set(xlabel="H, steps from one average to the next", ylabel="seconds to the loss")
    ax.figure.legend(loc="outside lower center", ncols=3)
    return axes


def by_time(links, target):
    """Draw how the loss falls over time, a panel for each link, all on one scale.

    ``links`` has for each link's name a dict: the curve's name, then its seconds and its losses.
    """
    axes = panels(len(links), sharex=True, sharey=True, figsize=(9.5, 4.4))
    for ax, (link, curves) in zip(axes, links.items(), strict=True):
        for i, (name, (seconds, losses)) in enumerate(curves.items()):
            ax.plot(seconds, losses, _STYLES[i % 4], marker=_MARKERS[i % 5], markevery=[-1],
                    markersize=10, color=colour(i), label=name)  # fmt: skip
        ax.axhline(target, color=GREY, linestyle=":", zorder=1)
        ax.set(xlabel="seconds", title=link)
    axes[0].set(xlim=(0, None), ylim=(0, None), ylabel="loss on the test digits")
    axes[0].figure.set_label("How the loss falls over time on each link, for each interval H")
    axes[0].figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return axes


def price(rows, compute, rate):
    """Draw the loss that each way to meet reached over the bytes that a rank sent, and over time.

    ``rows`` are dicts with ``name``, ``sent`` (bytes), ``seconds`` and ``loss``; ``compute`` is the
    part of the seconds that no link changes, ``rate`` the link's in bit/s.
    """
    from helpers.cluster.start.network import readable

    axes = panels(2, figsize=(11, 4.6), sharey=True)
    for i, row in enumerate(rows):
        look = {"linestyle": "", "color": colour(i), "marker": _MARKERS[i % 5], "markersize": 12}
        axes[0].plot(row["sent"] / 1e6, row["loss"], label=row["name"], **look)
        axes[1].plot(row["seconds"], row["loss"], **look)
    axes[1].axvline(compute, color=GREY, linestyle=":", zorder=1, label="computation alone")
    axes[0].figure.set_label("The loss that each way to meet reaches, and what it sends for it")
    axes[0].set(xscale="log", xlabel="MB that each rank sends", ylabel="loss after the training")
    axes[1].set(xscale="log", xlabel=f"seconds on links of {readable(rate)}, predicted")
    axes[0].set_xlim(min(row["sent"] for row in rows) / 2e6, max(row["sent"] for row in rows) / 5e5)
    axes[1].set_xlim(0.8 * compute, 25 * compute)  # the same for every link
    axes[0].set_ylim(0, 1.1 * max(row["loss"] for row in rows))
    for ax in axes:
        few_decades(ax.xaxis)
        ax.minorticks_off()
    axes[0].figure.legend(loc="outside lower center", ncols=3)
    return axes


def plane(paths, evaluate, cells):
    """Lay the plane through several runs' paths that shows most of them, and the loss on it.

    ``paths`` has for each run its replicas' parameters (R, T, P), all from one start;
    ``evaluate(values)`` is the loss at parameters (P,), asked at ``cells``, columns and rows. For
    :func:`replicas`.
    """
    everything = np.concatenate([run.reshape(-1, run.shape[-1]) for run in paths.values()])
    origin = everything.mean(0)
    apart = everything - origin
    sizes, mixtures = np.linalg.eigh(apart @ apart.T)  # of few points: cheaper than of P numbers
    directions = mixtures[:, [-1, -2]].T @ apart
    directions /= np.sqrt(np.maximum(sizes[[-1, -2], None], np.finfo(float).tiny))
    flat = {name: (run - origin) @ directions.T for name, run in paths.items()}
    points = np.concatenate([run.reshape(-1, 2) for run in flat.values()])
    low, high = points.min(0), points.max(0)
    pad = 0.12 * (high - low)
    xs, ys = (np.linspace(low[k] - pad[k], high[k] + pad[k], cells[k]) for k in (0, 1))
    loss = [[float(evaluate((origin + x * directions[0] + y * directions[1]).astype(np.float32)))
             for x in xs] for y in ys]  # fmt: skip
    return {
        "x": xs.tolist(),
        "y": ys.tolist(),
        "loss": loss,
        "paths": {name: run.tolist() for name, run in flat.items()},
    }


def replicas(plane: Mapping, met: Mapping[str, Sequence[int]]) -> HTML:
    """Return runs to play: where each replica is on the plane after each step, and the loss there.

    ``met`` has for each run the steps after which its replicas met.
    """
    everywhere = np.concatenate([np.reshape(run, (-1, 2)) for run in plane["paths"].values()])
    bands, lines = _contours(plane, everywhere)
    data = {
        "x": [plane["x"][0], plane["x"][-1]],
        "y": [plane["y"][0], plane["y"][-1]],
        "bands": bands,
        "lines": lines,
        "paths": {
            name: [[[round(float(v), 5) for v in point] for point in path] for path in run]
            for name, run in plane["paths"].items()
        },
        "met": {name: list(frames) for name, frames in met.items()},
        "colours": PALETTE[:4],
    }
    return embed("replicas", data)


def _contours(plane, taken):
    """Return bands between levels of the loss, and lines at them, with a label far from points."""
    from matplotlib.colors import to_hex
    from matplotlib.figure import Figure

    loss, levels = np.array(plane["loss"]), 7
    low, high = loss.min(), loss.max()
    at = sorted({float(f"{level:.2g}") for level in np.geomspace(low, high, levels + 2)[1:-1]})
    ax = Figure().add_subplot()
    filled = ax.contourf(plane["x"], plane["y"], loss, [0.99 * low, *at, 1.01 * high])
    drawn = ax.contour(plane["x"], plane["y"], loss, at)

    def pieces(path, closed):
        return [part.round(4) for part in path.to_polygons(closed_only=closed)]

    # ink on paper, so that a dark theme may turn it round; light enough for lines of any colour
    greys = [to_hex([1 - 0.3 * k / len(at)] * 3) for k in range(len(at) + 1)]
    bands = [{"fill": grey, "parts": [part.tolist() for part in pieces(path, True)]}
             for grey, path in zip(greys, filled.get_paths(), strict=True)]  # fmt: skip
    lines = []
    for level, path in zip(at, drawn.get_paths(), strict=True):
        parts = pieces(path, False)
        if parts:
            points = np.concatenate([part[len(part) // 4 : -(len(part) // 4) or None]
                                     for part in parts])  # fmt: skip
            free = np.linalg.norm(points[:, None] - taken, axis=2).min(1)
            label = points[free.argmax()].tolist()
            lines.append(
                {"level": level, "label": label, "parts": [part.tolist() for part in parts]}
            )
    return bands, lines
