"""Replicas on a loss surface, step by step, as a picture that plays in the page.

In a browser test find its parts by ``data-testid``: ``replicas`` (the whole), ``replicas-run`` (a
menu), and those of ``web/player.js`` with ``replicas-`` before them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from helpers.plots.style import PALETTE
from helpers.plots.web.page import embed

if TYPE_CHECKING:
    from IPython.display import HTML


def replicas(plane: Mapping, every: int, met: Mapping[str, Sequence[int]]) -> HTML:
    """Return runs to play: where each replica is on the plane, and the loss there.

    Parameters
    ----------
    every : int
        Steps of training from one frame to the next.
    met : mapping of str to sequence of int
        Run → frames at which the replicas met.
    """
    from IPython.display import HTML
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm, to_hex

    low = min(map(min, plane["loss"]))
    high = max(map(max, plane["loss"]))
    norm, colours = LogNorm(low, high), colormaps["cividis"].reversed()
    data = {
        "x": plane["x"],
        "y": plane["y"],
        "fill": [[to_hex(colours(norm(value))) for value in row] for row in plane["loss"]],
        "low": low,
        "high": high,
        "scale": [to_hex(colours(k / 20)) for k in range(21)],
        "paths": {
            name: [[[round(float(v), 5) for v in point] for point in path] for path in run]
            for name, run in plane["paths"].items()
        },
        "every": every,
        "met": {name: list(frames) for name, frames in met.items()},
        "colours": [PALETTE[3], PALETTE[5], "#ffffff", PALETTE[4]],
    }
    return HTML(embed("replicas.js", "replicas.css", data))
