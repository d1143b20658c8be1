"""How long a schedule takes and what it keeps: by formula, and by following its dependencies.

A backward pass (B) costs what its two parts cost: the gradient of the inputs (I) and that of the
weights (W). Times in seconds, or in any other unit.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass

from helpers.pipeline.schedule import Action, Schedule, check, same, walk


@dataclass(frozen=True)
class Box:
    """One action and its time."""

    rank: int
    action: Action
    begin: float
    end: float


@dataclass(frozen=True)
class Timeline:
    """All boxes of a step."""

    schedule: Schedule
    boxes: tuple[Box, ...]
    recorded: bool  # whether ranks did this, or the model says so
    unit: str = ""  # of the times: "s", or "" for the model's own
    note: str = ""  # what a picture must say about it, such as the stages' pace

    @property
    def begin(self) -> float:
        """When the first rank began."""
        return min(box.begin for box in self.boxes)

    @property
    def span(self) -> float:
        """How long it took from the first box to the end of the last."""
        return max(box.end for box in self.boxes) - self.begin

    @property
    def bubble(self) -> float:
        """The share of that time, over all ranks, in which no action was under way; 0 to 1."""
        busy = sum(box.end - box.begin for box in self.boxes)
        return 1 - busy / (self.span * self.schedule.ranks) if self.span else 0.0

    def held(self, rank: int) -> list[tuple[float, int]]:
        """Return from when on a rank keeps how many micro-batches (of a chunk).

        One more at the end of each F, one fewer at the end of each B or W.
        """
        changes = [
            (box.end - self.begin, 1 if box.action.kind == "F" else -1)
            for box in self.boxes
            if box.rank == rank and box.action.kind in "FBW"
        ]
        found, count = [(0.0, 0)], 0
        for moment, change in sorted(changes):
            count += change
            found.append((moment, count))
        return found

    def most_held(self, rank: int) -> int:
        """Return how many a rank keeps at most."""
        return max(count for _, count in self.held(rank))


@dataclass(frozen=True)
class Costs:
    """What each action costs: one number for all stages alike, or one for each.

    Parameters
    ----------
    forward, input, weight
        A forward pass, and the two parts of a backward pass: the gradient of the stage's inputs,
        and that of its weights. In seconds, or in any other unit.
    message
        From one rank to another.
    update
        Of a stage's weights.
    """

    forward: float | Sequence[float] = 1.0
    input: float | Sequence[float] = 1.0
    weight: float | Sequence[float] = 1.0
    message: float = 0.0
    update: float = 0.0

    def __post_init__(self) -> None:
        for name in ("forward", "input", "weight", "message", "update"):
            value = getattr(self, name)
            each = hasattr(value, "__len__") and name in ("forward", "input", "weight")
            if each:  # a list or an array
                object.__setattr__(self, name, tuple(value))
            for number in value if each else (value,):
                if not (isinstance(number, numbers.Real) and 0 <= float(number) < math.inf):
                    raise ValueError(f"Costs: {name}={value!r}, expected 0 or more")

    def of(self, kind: str, stage: int) -> float:
        """Return the cost of an action F, B, I, W or U of a stage."""

        def at(value: float | Sequence[float]) -> float:
            if not isinstance(value, Sequence):
                return value
            if stage >= len(value):
                raise ValueError(f"Costs: {value!r} has no number for stage {stage}")
            return value[stage]

        if kind == "F":
            return at(self.forward)
        if kind == "U":
            return self.update
        return (kind in "BI") * at(self.input) + (kind in "BW") * at(self.weight)


def simulate(schedule: Schedule, costs: Costs | None = None) -> Timeline:
    """Return when each action runs: it begins when its rank is free and what it needs is there.

    Parameters
    ----------
    costs
        The timeline has their unit. None: 1 for each part of an action.

    Raises
    ------
    ScheduleError
        If the schedule cannot run.
    """
    costs = costs or Costs()
    check(schedule)
    free = [0.0] * schedule.ranks
    ready: dict[tuple[int, Action], float] = {}
    boxes = []
    for rank, action in walk(schedule):
        begin = free[rank]
        source = schedule.source(rank, action)
        if source is not None:
            begin = max(begin, ready[source] + (costs.message if source[0] != rank else 0.0))
        end = begin + costs.of(action.kind, schedule.stage(rank, action.chunk))
        boxes.append(Box(rank, action, begin, end))
        ready[rank, same(action)] = free[rank] = end
    return Timeline(schedule, tuple(boxes), recorded=False)


def bubble(name: str, ranks: int, micro: int, chunks: int = 1, costs: Costs | None = None) -> float:
    """Return by formula the share of the time in which ranks are idle, 0 to 1, all stages alike.

    Parameters
    ----------
    name
        Of :data:`helpers.pipeline.families.FAMILIES`, else ValueError. In PipeDream's ``micro``
        batches the pipeline is filled and emptied once.
    micro, chunks
        m (zero-bubble needs m ≥ p), and v of the interleaved schedule.
    costs
        With free messages and equal stages, else ValueError; None: 1 for each part of an action.
    """
    p, m = ranks, micro
    stages = [costs.forward, costs.input, costs.weight] if costs else []
    if costs and (costs.message or any(isinstance(each, Sequence) for each in stages)):
        raise ValueError(
            f"bubble: formulas hold for free messages and equal stages; got {costs}: see simulate"
        )
    if name == "zero-bubble" and m < p:
        raise ValueError(f"bubble: zero-bubble's formula holds for m >= p; got m={m}, p={p}")
    if name in ("GPipe", "1F1B"):
        return (p - 1) / (m + p - 1)
    if name == "interleaved":
        return (p - 1) / (chunks * m + p - 1)
    if name in ("zero-bubble", "PipeDream"):
        costs = costs or Costs()
        f, i, w, u = (costs.of(kind, 0) for kind in "FIWU")
        if name == "PipeDream":
            lost = (p - 1) * (f + i + w)
            return lost / (m * (f + i + w + u) + lost)
        lost = (p - 1) * max(f + i - w, f, i)  # W fills the wait for I; not that for F or I itself
        return lost / (m * (f + i + w) + lost)
    raise ValueError(f"no formula for {name!r}")


def kept(name: str, ranks: int, micro: int, rank: int, chunks: int = 1) -> int:
    """Return by formula how many micro-batches' activations rank r keeps at most.

    m for GPipe; min(m, p − r) for 1F1B and PipeDream; min(m, p) for zero-bubble (m ≥ p); min(m v, 2
    (p − r − 1) + (v − 1) p + 1) chunks' worth interleaved, each 1/v of a rank's whole.
    """
    if name == "GPipe":
        return micro
    if name in ("1F1B", "PipeDream"):
        return min(micro, ranks - rank)
    if name == "zero-bubble":
        return min(micro, ranks)
    if name == "interleaved":
        return min(chunks * micro, 2 * (ranks - rank - 1) + (chunks - 1) * ranks + 1)
    raise ValueError(f"no formula for {name!r}")
