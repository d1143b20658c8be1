"""A run watched: when each operator ran, and when the network did."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from helpers.autodiff.operator import Operator
from helpers.autodiff.run import Function

if TYPE_CHECKING:
    from helpers.autodiff.parallel import Line


@dataclass(frozen=True)
class Event:
    """Something that took time."""

    label: str  # an operator's name, or how many bytes were averaged
    start: float  # seconds since the run began, as the next
    stop: float
    lane: str  # "compute", "wait" or "network"


def watch(
    function: Function, *arrays: np.ndarray, line: Line | None = None
) -> tuple[list[np.ndarray], list[Event]]:
    """Run a function; return its outputs, and when each operator ran, in the order of beginnings.

    A ``line`` is one whose reductions are to be seen too.
    """
    events: list[Event] = []
    known = len(line.events) if line else 0
    zero = perf_counter()

    def watcher(operator: Operator, begin: float, end: float) -> None:
        lane = "wait" if str(operator) == "wait" else "compute"
        events.append(Event(str(operator), begin - zero, end - zero, lane))

    values = function(*arrays, watcher=watcher)
    for begin, end, size in line.events[known:] if line else ():
        events.append(Event(f"{size} B", begin - zero, end - zero, "network"))
    return values, sorted(events, key=lambda event: event.start)
