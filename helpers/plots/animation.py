"""An animation of collectives that plays in the page: who sends which chunk to whom, step by step.

``animate(schedules)`` returns one HTML element with its data, style and script inside: it needs no
network and, once made, no kernel; any number of them may stand on one page. In a browser test find
its parts by ``data-testid`` (inside ``[data-testid="animation"]``): ``animation-play`` (a toggle),
``animation-step`` and ``animation-back``, ``animation-first``, ``animation-scrubber``,
``animation-frame`` (text "step 2 of 6", attribute ``data-frame="2"``), ``animation-collective``,
``animation-ranks`` and ``animation-pieces`` (sliders), ``animation-origin`` ("recorded: 4 real
ranks" or "model: 8 ranks") and ``animation-status``. The player itself is ``animation.js``.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path

from helpers.plots.style import PALETTE

MAX_RANKS = 30  # a set of ranks is kept as the bits of a JavaScript integer


def animate(schedules, titles: dict[str, str] | None = None):
    """Return an ``IPython.display.HTML`` that plays ``schedules``, the first one to begin with.

    ``schedules`` is a :class:`helpers.collectives.schedule.Schedule` or several; those of the same
    name are reached by the sliders for ranks and chunks, others by a menu. ``titles`` replaces the
    names shown. Raises ValueError for none, or for one of more than 30 ranks.
    """
    from IPython.display import HTML

    return HTML(animation_html(schedules, titles))


def animation_html(schedules, titles: dict[str, str] | None = None) -> str:
    """Return the HTML of :func:`animate` as text."""
    schedules = list(schedules) if isinstance(schedules, Iterable) else [schedules]
    if not schedules:
        raise ValueError("animate expects at least one schedule; got none")
    for schedule in schedules:
        if schedule.ranks > MAX_RANKS:
            raise ValueError(
                f"an animation shows at most {MAX_RANKS} ranks; {schedule.name!r} has "
                f"{schedule.ranks}: how the cost grows beyond is a plot of helpers.plots.costs"
            )
    names = {schedule.name: schedule.title or schedule.name for schedule in schedules}
    data = {
        "palette": [*PALETTE[:6], "#8c6d31", "#7b6fd0"],  # and two more, for ranks 6 and 7
        "titles": names | {name: text for name, text in (titles or {}).items() if name in names},
        "schedules": [_encoded(schedule) for schedule in schedules],
    }
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    data["id"] = hashlib.sha256(text.encode()).hexdigest()[:12]
    here = Path(__file__).parent
    script = (here / "animation.js").read_text(encoding="utf-8").rstrip()
    style = (here / "animation.css").read_text(encoding="utf-8")
    # "</" would end the script element, wherever it stands in the data
    encoded = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
    return (
        f"<style>{style}</style>"
        f'<div class="collective-animation" data-testid="animation" data-animation="{data["id"]}">'
        "The animation appears here once scripts may run: in JupyterLab, run this cell."
        f"</div><script>{script}({encoded});</script>"
    )


def _encoded(schedule) -> dict:
    """The schedule as JSON: sets of ranks as bits, transfers by step as [source, dest, chunk]."""
    steps: list[list] = [[] for _ in range(schedule.steps)]
    for t in schedule.transfers:
        steps[t.step - 1].append([t.source, t.dest, t.chunk])
    return {
        "name": schedule.name,
        "ranks": schedule.ranks,
        "chunks": schedule.chunks,
        "pieces": schedule.pieces,
        "origin": schedule.origin,
        "held": [[sum(1 << r for r in chunk) for chunk in row] for row in schedule.held],
        "steps": steps,
    }
