"""Steps of pipelines in the page: schedule, ranks, micro-batches, memory to choose; play and step.

In a browser test find its parts by ``data-testid`` (inside ``pipeline``): ``pipeline-schedule`` (a
menu), ``pipeline-ranks``, ``pipeline-micro`` and ``pipeline-memory`` (sliders), ``pipeline-origin``
("recorded on 4 ranks; ..." or "model of 8 ranks, ..."), ``pipeline-status``, and those of
``web/player.js`` (``pipeline-play``, ``pipeline-step``, ...).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from helpers.plots.pipeline import COLOURS, NAMES
from helpers.plots.style import edge, ink
from helpers.plots.web.page import embed

if TYPE_CHECKING:
    from IPython.display import HTML

    from helpers.pipeline.model import Timeline

KINDS = "FBIWU"


def pipelines(timelines: Sequence[Timeline]) -> HTML:
    """Return a player of steps; its sliders begin at 4 ranks and 8 micro-batches, or the nearest.

    Of two timelines for the same schedule and sizes the first is shown.
    """
    from IPython.display import HTML

    found: dict[tuple, dict] = {}
    for line in timelines:
        schedule = line.schedule
        found.setdefault((schedule.name, schedule.ranks, schedule.micro), _coded(line))
    data = {
        "runs": list(found.values()),
        "ranks": 4,
        "micro": 8,
        "colours": [COLOURS[kind] for kind in KINDS],
        "edges": [edge(COLOURS[kind]) for kind in KINDS],
        "inks": [ink(COLOURS[kind]) for kind in KINDS],
        "names": [NAMES[kind] for kind in KINDS],
    }
    return HTML(embed("pipeline.js", "pipeline.css", data))


def _coded(line: Timeline) -> dict:
    schedule, per = line.schedule, 1000 / line.span
    boxes = [
        [
            *(box.rank, KINDS.index(box.action.kind), box.action.micro, box.action.chunk),
            round((box.begin - line.begin) * per),
            round((box.end - line.begin) * per),
        ]
        for box in line.boxes
    ]
    return {
        "name": schedule.name,
        "ranks": schedule.ranks,
        "micro": schedule.micro,
        "chunks": schedule.chunks,
        "recorded": line.recorded,
        "note": line.note,
        "idle": round(line.bubble, 4),
        "boxes": boxes,
    }
