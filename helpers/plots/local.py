"""Pictures of replicas that go their own way: who has a core, drift, which H is fastest."""

from __future__ import annotations

import numpy as np

from helpers.plots.style import BLACK, BLUE, GREY, ORANGE, VERMILION, colour, ensure_panels

_STYLES = ("-", "--", "-.", ":")
_MARKERS = "os^Dv"


def cores(watches, axes=None):
    """Draw who had a core: for each watch (name → slices) a lane for each thread; return the axes.

    ``watches`` maps a title to slices of :class:`helpers.machine.cores.Watch`. Blue is the part of
    each slice that a thread had a core, orange (hatched) the part that it stood ready without one.
    """
    axes = ensure_panels(axes, len(watches), figsize=(11.5, 4.8))
    for ax, (title, slices) in zip(axes, watches.items(), strict=True):
        lanes = sorted({(piece.process, piece.thread) for piece in slices})
        for piece in slices:
            y = lanes.index((piece.process, piece.thread))
            begin, wide = piece.begin * 1e3, (piece.end - piece.begin) * 1e3
            ran = min(1.0, piece.ran / (piece.end - piece.begin))
            waited = min(1.0 - ran, piece.waited / (piece.end - piece.begin))
            ax.barh(y + 0.4 - 0.4 * ran, wide, 0.8 * ran, begin, color=BLUE, linewidth=0)
            ax.barh(y + 0.4 - 0.8 * ran - 0.4 * waited, wide, 0.8 * waited, begin, color=ORANGE,
                    hatch="///", edgecolor="white", linewidth=0)  # fmt: skip
        ax.set_yticks(range(len(lanes)), [f"{p} · {t}" for p, t in lanes], fontsize=10)
        ax.set(xlabel="ms", title=title)
        ax.invert_yaxis()
        ax.grid(visible=False)
    axes[0].set_ylabel("process · thread")
    bars = [axes[0].barh([0], [0], color=BLUE), axes[0].barh([0], [0], color=ORANGE, hatch="///")]
    axes[0].figure.legend(bars, ["has a core", "ready, without a core"], loc="outside lower center",
                          ncols=2)  # fmt: skip
    return axes


def drift(curves, axes=None):
    """Draw how far replicas are apart, step by step, beside what the noise predicts.

    ``curves`` are (name, steps, measured, predicted), the last None or an array.
    """
    (ax,) = axes = ensure_panels(axes, 1, figsize=(9.5, 4.8))
    for i, (name, steps, measured, predicted) in enumerate(curves):
        look = {"color": colour(i), "markevery": max(1, len(steps) // 12)}
        ax.plot(steps, measured, "-", marker=_MARKERS[i % 5], label=name, **look)
        if predicted is not None:
            ax.plot(steps, predicted, "--", marker="", color=colour(i), linewidth=1.6)
    ax.plot([], [], "--", marker="", color=GREY, label="predicted from the noise")
    ax.set(xlabel="steps", ylabel="consensus distance Ξ", ylim=(0, None))
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return axes


def fastest(rows, axes=None):
    """Draw seconds to a loss over H for each link, predicted (lines) and measured (markers).

    ``rows`` are dicts with ``rate`` (bit/s), ``H``, ``predicted`` and ``measured`` (s, or None).
    """
    from helpers.cluster.start.network.description import readable

    (ax,) = axes = ensure_panels(axes, 1, figsize=(9.5, 4.8))
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
        best = min(seen or mine, key=lambda row: row["measured"] or row["predicted"])
        ax.plot(best["H"], best["measured"] or best["predicted"], "o", markersize=20,
                markerfacecolor="none", color=BLACK)  # fmt: skip
    ax.plot([], [], "o", markersize=12, markerfacecolor="none", color=BLACK, label="the fastest H")
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ticks = sorted({row["H"] for row in rows})
    ax.set_xticks(ticks, [str(H) for H in ticks])
    low, high = ax.get_ylim()
    seconds = [n * 10**k for k in range(-3, 4) for n in (1, 2, 5) if low <= n * 10**k <= high]
    ax.set_yticks(seconds, [f"{one:g}" for one in seconds])
    ax.minorticks_off()
    ax.set(xlabel="H, steps from one average to the next", ylabel="seconds to the loss")
    ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return axes


def speed_ups(workers, series, axes=None):
    """Draw speed-ups over workers: ``series`` maps a name to as many values as ``workers``."""
    (ax,) = axes = ensure_panels(axes, 1, figsize=(8.5, 4.5))
    ax.plot(workers, workers, ":", marker="", color=GREY, label="as many times as workers")
    for i, (name, values) in enumerate(series.items()):
        ax.plot(
            workers, values, _STYLES[i % 4], marker=_MARKERS[i % 5], color=colour(i), label=name
        )
    ax.set_xticks(list(workers))
    ax.set(xlabel="workers", ylabel="times as fast as one worker")
    ax.legend()
    return axes


def lengths(values, names, unit, of, axes=None):
    """Draw a bar for each name, with its number and unit; ``of`` says what is drawn."""
    (ax,) = axes = ensure_panels(axes, 1, figsize=(9, 3.2))
    hatches = ("", "//", "..", "xx", "--")
    for i, (name, value) in enumerate(zip(names, values, strict=True)):
        bar = ax.barh([name], [value], 0.7, color=[BLUE, VERMILION, ORANGE][i % 3],
                      hatch=hatches[i % 5], edgecolor="white")  # fmt: skip
        ax.bar_label(bar, [f"{value:.3g} {unit}"], padding=4)
    ax.invert_yaxis()
    ax.margins(x=0.2)
    ax.set(xlabel=f"{of} ({unit})")
    return axes


def plane(paths, evaluate, cells=(36, 26)):
    """Lay the plane through several runs' paths that shows most of them, and the loss on it.

    Parameters
    ----------
    paths : mapping of str to numpy.ndarray (R, T, P)
        The replicas' parameters in each run, all from one start.
    evaluate : callable
        ``evaluate(values)`` → the loss at parameters (P,).
    cells : tuple of int
        Columns and rows at which it is asked.

    Returns
    -------
    dict
        For :func:`helpers.plots.replicas_html.replicas`.
    """
    everything = np.concatenate([run.reshape(-1, run.shape[-1]) for run in paths.values()])
    origin = everything.mean(0)
    _, _, directions = np.linalg.svd(everything - origin, full_matrices=False)
    flat = {name: (run - origin) @ directions[:2].T for name, run in paths.items()}
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
