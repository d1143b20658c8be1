"""An animation of collectives that plays in the page: who sends which chunk to whom, step by step.

The picture is drawn by ``web/collective-animation.js``, its steps are played by ``web/player.js``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from helpers.plots.style import EIGHT
from helpers.plots.web.page import embed

if TYPE_CHECKING:
    from IPython.display import HTML

    from helpers.collectives.schedule import Schedule

MAX_RANKS = 30  # a set of ranks is kept as the bits of a JavaScript integer


def animate(schedules: Schedule | Iterable[Schedule]) -> HTML:
    """Return an animation of ``schedules`` that plays in the page, the first one to begin with.

    Parameters
    ----------
    schedules : Schedule or iterable of Schedule
        Those of the same name are reached by the sliders for ranks and chunks, others by a menu.

    Raises
    ------
    ValueError
        For a schedule of more than 30 ranks, and for one that would count a contribution
        twice.
    """
    schedules = list(schedules) if isinstance(schedules, Iterable) else [schedules]
    for schedule in schedules:
        if schedule.ranks > MAX_RANKS:
            raise ValueError(
                f"an animation shows at most {MAX_RANKS} ranks; {schedule.name!r} has "
                f"{schedule.ranks}: how the cost grows beyond is a plot of helpers.plots.costs"
            )
    names = {schedule.name: schedule.title or schedule.name for schedule in schedules}
    data = {
        "palette": list(EIGHT),
        "titles": names,
        "schedules": [_encoded(schedule) for schedule in schedules],
    }
    return embed("collective-animation", data, test_id="animation")


def _encoded(schedule: Schedule) -> dict:
    """The schedule as JSON: transfers by step as [source, dest, chunk], sets of ranks as bits.

    ``after`` says of each transfer what its receiver then holds of the chunk.
    """
    states = schedule.states()
    steps = [schedule.at(step) for step in range(1, schedule.steps + 1)]
    return {
        "name": schedule.name,
        "ranks": schedule.ranks,
        "chunks": schedule.chunks,
        "pieces": schedule.pieces,
        "origin": schedule.origin,
        "held": [[_bits(chunk) for chunk in row] for row in schedule.held],
        "steps": [[[t.source, t.dest, t.chunk] for t in step] for step in steps],
        "after": [
            [_bits(states[step][t.dest][t.chunk]) for t in transfers]
            for step, transfers in enumerate(steps, start=1)
        ],
    }


def _bits(ranks: Iterable[int]) -> int:
    return sum(1 << rank for rank in ranks)
