"""An animation of collectives that plays in the page: who sends which chunk to whom, step by step.

``animate(schedules)`` returns one HTML element with its data, style and script inside: it needs no
network and, once made, no kernel; any number of them may stand on one page. In a browser test find
its parts by ``data-testid`` (inside ``[data-testid="animation"]``): ``animation-play`` (a toggle),
``animation-step``, ``-back``, ``-first`` and ``-last``, ``animation-scrubber``,
``animation-frame`` (text "step 2 of 6", attribute ``data-frame="2"``), ``animation-collective``,
``animation-ranks`` and ``animation-pieces`` (sliders), ``animation-origin`` ("recorded: 4 real
ranks" or "model: 8 ranks") and ``animation-status``. The picture is drawn by
``web/collective-animation.js``, its steps are played by ``web/player.js``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from helpers.plots.style import PALETTE
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
    from IPython.display import HTML

    schedules = list(schedules) if isinstance(schedules, Iterable) else [schedules]
    for schedule in schedules:
        if schedule.ranks > MAX_RANKS:
            raise ValueError(
                f"an animation shows at most {MAX_RANKS} ranks; {schedule.name!r} has "
                f"{schedule.ranks}: how the cost grows beyond is a plot of helpers.plots.costs"
            )
    names = {schedule.name: schedule.title or schedule.name for schedule in schedules}
    data = {
        "palette": [*PALETTE[:6], "#8c6d31", "#7b6fd0"],  # and two more, for ranks 6 and 7
        "titles": names,
        "schedules": [_encoded(schedule) for schedule in schedules],
    }
    page = embed("collective-animation.js", "collective-animation.css", data, test_id="animation")
    return HTML(page)


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
