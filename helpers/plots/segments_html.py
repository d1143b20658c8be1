"""What a chain keeps and computes again, as a picture with a slider: segments, or the optimum.

Time runs to the right, one step forward or back each; a bar is an x that is held, from when it was
computed until it is forgotten. In a browser test find its parts by ``data-testid``: ``segments``
(the whole), ``segments-way`` (a menu), ``segments-count`` (a slider), ``segments-said``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.plots.style import BLUE, ORANGE, VERMILION
from helpers.plots.web.page import embed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from IPython.display import HTML

    from helpers.autodiff.checkpoint import Action

KINDS = ("forward", "backward", "forget")


def segments(ways: Mapping[str, Mapping[int, Sequence[Action]]], steps: int, first: int) -> HTML:
    """Return schedules of a chain to slide through.

    Parameters
    ----------
    ways : mapping
        A way to choose what is kept, such as "segments" → number of them → its schedule.
    steps : int
        n, the length of the chain; up to 64.
    """
    from IPython.display import HTML

    if not 1 <= steps <= 64:
        raise ValueError(f"segments draws chains of 1 to 64 steps; got {steps}")
    if any(first not in schedules for schedules in ways.values()):
        raise ValueError(f"segments expects a schedule for {first} in each way; got {list(ways)}")
    coded = {
        way: {str(count): [[KINDS.index(a.kind), a.step] for a in schedule]
              for count, schedule in schedules.items()}
        for way, schedules in ways.items()
    }  # fmt: skip
    data = {
        "ways": coded,
        "steps": steps,
        "first": first,
        "colours": {"held": BLUE, "forward": ORANGE, "backward": VERMILION},
    }
    return HTML(embed("segments.js", "segments.css", data))
