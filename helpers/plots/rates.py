"""A comparison of trainings over the learning rate, with the rate that is best for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from helpers.plots.style import BLACK, colour, marker, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from helpers.claims.recorded import Recorded

MANY = 4  # curves of settings in a panel, whose bands would hide one another


def over_rates(
    recorded: Recorded,
    chosen: Mapping[str, Mapping[str, str]] | None = None,
    xlabel: str = "learning rate λ",
) -> Sequence[Axes]:
    """Draw what a recorded claim found at each rate: a curve for each way, a panel for each budget.

    Parameters
    ----------
    recorded : Recorded
        A claim that searched a grid of rates (:func:`helpers.claims.evidence`).
    chosen : mapping, optional
        Panels by title; each maps the name of a curve to a setting of the claim. The rival of the
        first setting is drawn as well. None: a panel for each setting.
    xlabel : str

    Returns
    -------
    sequence of Axes
        Lines are means over the seeds. Bands reach from the least to the greatest, unless there are
        many curves. A ring marks the best rate of each.
    """
    rows = {row.parameters["setting"]: row for row in recorded.rows}
    if missing := [name for name, row in rows.items() if "grid" not in row.parameters]:
        raise ValueError(f"over_rates expects a claim with a grid of rates; {missing} have none")
    first = recorded.rows[0]
    if chosen is None:
        chosen = {name: {first.parameters["ours"]: name} for name in rows}
    axes = panels(len(chosen), sharey=True, figsize=(10.5, 4.6))
    narrow = max(map(len, chosen.values())) < MANY
    bands = ", and from the least to the greatest" if narrow else ""
    said = f"{first.unit} over the learning rate: means{bands} (rings: the best of each)"
    axes[0].figure.set_label(said.capitalize())
    names = [first.peer, *dict.fromkeys(name for curves in chosen.values() for name in curves)]
    drawn = {}
    for ax, (title, curves) in zip(axes, chosen.items(), strict=True):
        grids = {name: rows[setting].parameters["grid"] for name, setting in curves.items()}
        sides = [(first.peer, "rival", 1, next(iter(grids.values())))]
        sides += [(name, "ours", 0, grid) for name, grid in grids.items()]
        for name, side, place, grid in sides:
            k = names.index(name)
            values, best = np.array(grid[side]), grid["best"][place]
            line = {"color": colour(k), "marker": marker(k), "label": name}
            drawn[name] = ax.plot(grid["rates"], values.mean(1), **line)[0]
            ends = values.min(1), values.max(1)
            if narrow:
                ax.fill_between(grid["rates"], *ends, color=colour(k), alpha=0.15)
            at = grid["rates"][best], values[best].mean()
            ax.plot(*at, "o", color=BLACK, fillstyle="none", markersize=15, zorder=5)
        ax.set_xscale("log")
        ax.set_xticks(grid["rates"], [f"{rate:g}" for rate in grid["rates"]], rotation=45)
        ax.set_xticks([], minor=True)
        ax.set(xlabel=xlabel, title=title)
    axes[0].set_ylabel(first.unit)
    axes[0].figure.legend(
        handles=list(drawn.values()), loc="outside lower center", ncols=len(drawn)
    )
    return axes
