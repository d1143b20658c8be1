"""Pictures of the banks of shared memory: which bank holds which word of a tile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from helpers.plots import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def padding(banks: int, pads: Sequence[int] = (0, 1), read: int = 2) -> Sequence[Axes]:
    """Draw a tile of ``banks`` × ``banks`` words for each padding, with each word's bank in it.

    Lane `l` reads row `l` of column ``read``, which is filled; words of the padding are hatched.
    """
    from matplotlib.patches import Rectangle

    axes = style.panels(len(pads), figsize=(4.4 * len(pads), 4.0))
    for ax, pad in zip(axes, pads, strict=True):
        columns = banks + pad
        for word in range(banks * columns):
            row, column = divmod(word, columns)
            fill, hatch = (style.ORANGE if column == read else "white"), ""
            if column >= banks:
                fill, hatch = "#e4e4e4", "///"
            ax.add_patch(Rectangle((column, row), 1, 1, fc=fill, ec=style.GREY, hatch=hatch, lw=1))
            if column < banks:
                ax.text(column + 0.5, row + 0.5, f"{word % banks}", ha="center", va="center",
                        weight="bold" if column == read else "normal")  # fmt: skip
        wanted = [(row * columns + read) % banks for row in range(banks)]
        passes = max(map(wanted.count, wanted))
        ax.set_title(
            (f"rows of {banks} + {pad} words" if pad else f"rows of {banks} words")
            + f": {passes} wavefront{'s' * (passes > 1)}"
        )
        ax.set_yticks([row + 0.5 for row in range(banks)], [f"lane {r}" for r in range(banks)])
        ax.set_xticks([banks + pad / 2] if pad else [], ["padding"] if pad else [])
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        ax.grid(False)
        ax.set(xlim=(-0.05, banks + max(pads) + 0.05), ylim=(banks + 0.05, -0.05), aspect="equal")
    axes[0].figure.set_label(
        f"The bank of each word of a tile, with {banks} banks; the lanes read the filled column"
    )
    return axes
