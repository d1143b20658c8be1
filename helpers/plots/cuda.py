"""Pictures of kernels: images, warps in their passes, a roofline.

They take a record of :mod:`helpers.cuda` or plain numbers, and return their axes.
The pictures that answer clicks are in ``cuda_html.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from helpers.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from helpers.cuda.warps import WarpRecord


def images(named: Mapping[str, np.ndarray]) -> Sequence[Axes]:
    """Show images of values from 0 to 1 side by side, grey (H, W) or coloured (H, W, 3)."""
    # as wide as a notebook shows without shrinking the titles, and one alone no higher than a page
    axes = style.panels(len(named), figsize=(10.5, 10.5 / max(len(named), 3)))
    for one, (name, image) in zip(axes, named.items(), strict=True):
        one.imshow(image, cmap="gray", vmin=0, vmax=1)
        one.set_title(name)
        one.axis("off")
    return axes


HATCHES = ("", "///", "...", "xxx", "\\\\\\", "ooo", "+++", "---")


def warp_passes(record: WarpRecord) -> Axes:
    """Draw which lanes of the first warp work in each pass, a colour and a hatch for each line."""
    shown = record.select()
    shown = shown[(shown["block"] == 0) & (shown["warp"] == 0)]
    ax = style.ensure_axes(figsize=(9, 3.6))
    text = record.source.splitlines()
    for number, line in enumerate(np.unique(shown["line"]).tolist()):
        boxes = []  # of a pass: its place, the first lane of a run, the run's length
        for place in np.flatnonzero(shown["line"] == line):
            bits = int(shown["lanes"][place])
            lanes = np.array([0, *(bits >> lane & 1 for lane in range(32)), 0])
            begin, end = (np.flatnonzero(np.diff(lanes) == step) for step in (1, -1))
            boxes += [(place + 1, *run) for run in zip(begin, end - begin, strict=True)]
        places, first, length = np.array(boxes).T
        ax.bar(places, length, bottom=first - 0.5, width=0.9, fc=style.colour(number),
               ec="white", lw=0.5, hatch=HATCHES[number % len(HATCHES)],
               label=f"line {line}: {text[line - 1].strip()}")  # fmt: skip
    idle = 1 - np.unpackbits(shown["lanes"].copy().view(np.uint8)).sum() / (32 * len(shown))
    ax.set(
        xlabel="pass of the warp",
        ylabel="lane of the warp",
        ylim=(-1, 32),
        title=f"{len(shown)} passes, {idle:.0%} of the lanes idle",
    )
    ax.set_yticks((0, 8, 16, 24, 31))
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.24), fontsize=10)
    ax.grid(False)
    return ax
