"""A schedule: for each rank, what it does to which micro-batch, in order; what is wrong with one.

>>> two = Schedule.written("by hand", ["F0 F1 B0 B1", "F0 B0 F1 B1"])
>>> two.orders[1][2]
Action(kind='F', micro=1, chunk=0)
>>> print(two)
by hand: 2 ranks, 2 micro-batches
rank 0: F0 F1 B0 B1
rank 1: F0 B0 F1 B1

A rank may have several chunks of the model. Unless a schedule has other places, stage s, counted
along the model, is chunk s // p on rank s % p of p. ``F0.1`` is the forward pass of micro-batch 0
through the rank's chunk 1.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

KINDS = {
    "F": "forward",
    "B": "backward",
    "I": "backward, the part of the inputs",
    "W": "backward, the part of the weights",
    "U": "update of the weights",
}
_WRITTEN = re.compile(r"([A-Z])(\d+)(?:\.(\d+))?")


class Action(NamedTuple):
    """One thing that a rank does with a micro-batch on one of its chunks of the model, from 0.

    Its kind: "F" forward; "B" backward; "I" and "W" its two parts, the gradients of the inputs and
    of the weights; "U" an update of the weights by this micro-batch alone.
    """

    kind: str
    micro: int
    chunk: int = 0

    def __str__(self) -> str:
        return f"{self.kind}{self.micro}" + (f".{self.chunk}" if self.chunk else "")

    @classmethod
    def read(cls, text: str) -> Action:
        """Read what ``str`` wrote, such as "F0" or "B3.1"."""
        found = _WRITTEN.fullmatch(str(text).strip())
        if not found or found[1] not in KINDS:
            raise ValueError(
                f"{text!r} is no action: expected one of {', '.join(KINDS)}, then the number of "
                "a micro-batch, as in F0 or B3 (and .1 for a rank's chunk 1)"
            )
        return cls(found[1], int(found[2]), int(found[3] or 0))


@dataclass(frozen=True)
class Schedule:
    """Who does what, in which order.

    Parameters
    ----------
    orders : tuple of tuple of Action
        For each rank, its actions.
    micro : int
        Micro-batches of a step, m.
    chunks : int
        Chunks of the model on each rank, v.
    places : sequence of sequence of int
        For each rank, the stages that its chunks are: ``[[0, 3], [1, 2]]`` turns back at the last
        rank, a V. Stage s on rank s % p unless given.
    """

    name: str
    orders: tuple[tuple[Action, ...], ...]
    micro: int
    chunks: int = 1
    places: Sequence[Sequence[int]] = ()

    def __post_init__(self) -> None:
        for what, count in (("ranks", self.ranks), ("micro", self.micro), ("chunks", self.chunks)):
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise ValueError(f"{self.name}: {what}={count!r}, expected a number from 1 up")
        p, v = self.ranks, self.chunks
        wound = [range(rank, p * v, p) for rank in range(p)]
        places = tuple(tuple(stages) for stages in self.places or wound)
        each_once = sorted(stage for stages in places for stage in stages) == [*range(p * v)]
        if not each_once or [len(stages) for stages in places] != [v] * p:
            raise ValueError(
                f"{self.name}: places={self.places!r}, expected {v} stages for each of {p} ranks, "
                f"and each of the stages 0 to {p * v - 1} once"
            )
        object.__setattr__(self, "places", places)

    @property
    def ranks(self) -> int:
        """How many ranks it is for, p."""
        return len(self.orders)

    @property
    def stages(self) -> int:
        """Into how many pieces it cuts the model, p v."""
        return self.ranks * self.chunks

    def stage(self, rank: int, chunk: int) -> int:
        """Return which stage of the model a rank's chunk is, counted along the model."""
        return self.places[rank][chunk]

    def rank_of(self, stage: int) -> int:
        """Return the rank that has a stage."""
        return self._at(stage, "F", 0)[0]

    def source(self, rank: int, action: Action) -> tuple[int, Action] | None:
        """Return the (rank, action) of another stage whose result an action needs, or None."""
        stage = self.stage(rank, action.chunk)
        if action.kind == "F" and stage > 0:
            return self._at(stage - 1, "F", action.micro)
        if action.kind in "BI" and stage < self.stages - 1:
            return self._at(stage + 1, "B", action.micro)
        return None

    def target(self, rank: int, action: Action) -> tuple[int, Action] | None:
        """Return the (rank, action) of another stage that an action's result is for, or None."""
        stage = self.stage(rank, action.chunk)
        if action.kind == "F" and stage < self.stages - 1:
            return self._at(stage + 1, "F", action.micro)
        if action.kind in "BI" and stage > 0:
            return self._at(stage - 1, "B", action.micro)
        return None

    def _at(self, stage: int, kind: str, micro: int) -> tuple[int, Action]:
        rank, chunk = self._where[stage]
        return rank, Action(kind, micro, chunk)

    @cached_property
    def _where(self) -> dict[int, tuple[int, int]]:
        return {
            stage: (rank, chunk)
            for rank, stages in enumerate(self.places)
            for chunk, stage in enumerate(stages)
        }

    @classmethod
    def written(
        cls,
        name: str,
        lines: Sequence[str | Sequence[str]],
        chunks: int = 1,
        places: Sequence[Sequence[int]] = (),
    ) -> Schedule:
        """Read a schedule from text: for each rank a string of actions, or a list of strings."""
        orders = tuple(
            tuple(
                action if isinstance(action, Action) else Action.read(action)
                for action in (line.split() if isinstance(line, str) else line)
            )
            for line in lines
        )
        micro = max((action.micro for order in orders for action in order), default=-1) + 1
        return cls(name, orders, micro, chunks, places)

    def __str__(self) -> str:
        lines = [f"rank {r}: {' '.join(map(str, order))}" for r, order in enumerate(self.orders)]
        return "\n".join([f"{self.name}: {self.ranks} ranks, {self.micro} micro-batches", *lines])


class ScheduleError(ValueError):
    """A schedule that cannot run; the message says where and why."""


def check(schedule: Schedule, blocking: bool = False) -> None:
    """Return if a schedule does all the work once and comes to its end; else raise ScheduleError.

    >>> check(Schedule.written("mine", ["F0 B0 F1 B1", "F0 F1 B0 B1"]))
    Traceback (most recent call last):
    ...
    helpers.pipeline.schedule.ScheduleError: mine: nobody can go on.
      rank 0 waits at B0 for rank 1 to do B0
      rank 1 waits at F1 for rank 0 to do F1

    Parameters
    ----------
    blocking
        Whether a send returns only once the other side receives (`MPI_Ssend`, or `MPI_Send` of a
        long message), or at once (`MPI_Isend`, as the runner has it).
    """
    for rank, order in enumerate(schedule.orders):
        for chunk in range(schedule.chunks):
            _complete(schedule, rank, chunk, [a for a in order if a.chunk == chunk])
        if unknown := [a for a in order if not 0 <= a.chunk < schedule.chunks]:
            raise ScheduleError(
                f"{schedule.name}: rank {rank} does {unknown[0]}: it has chunks 0 to "
                f"{schedule.chunks - 1}"
            )
    for _ in walk(schedule, blocking):
        pass


def _complete(schedule: Schedule, rank: int, chunk: int, order: list[Action]) -> None:
    where = f"{schedule.name}: rank {rank}"
    if unknown := [a for a in order if a.kind not in KINDS]:
        raise ScheduleError(f"{where} does {unknown[0]}: expected one of {', '.join(KINDS)}")
    times = Counter(order)
    if twice := [action for action, n in times.items() if n > 1]:
        raise ScheduleError(f"{where} does {twice[0]} {times[twice[0]]} times")
    if strange := [a for a in order if not 0 <= a.micro < schedule.micro]:
        raise ScheduleError(
            f"{where} does {strange[0]}: micro-batches are 0 to {schedule.micro - 1}"
        )
    place = {action: k for k, action in enumerate(order)}
    for micro in range(schedule.micro):
        f, b, i, w, u = (Action(kind, micro, chunk) for kind in "FBIWU")
        if f not in place:
            raise ScheduleError(f"{where} never does {f}")
        if b not in place and i not in place and w not in place:
            raise ScheduleError(f"{where} never does {b} (or its two parts, {i} and {w})")
        if b in place and (i in place or w in place):
            raise ScheduleError(f"{where} does {b} and a part of it once more")
        if b not in place and (i not in place or w not in place):
            raise ScheduleError(f"{where} does one of {i} and {w} only: a backward pass is both")
        for first, then in ((f, b), (f, i), (i, w), (b, u), (w, u)):
            if first in place and then in place and place[first] > place[then]:
                why = "which comes first here" if first == i else "which it needs"
                raise ScheduleError(f"{where} does {then} before {first}, {why}")


def same(action: Action) -> Action:
    """Return B for I, which are alike to other ranks: both bring the gradient of the inputs."""
    return action._replace(kind="B") if action.kind == "I" else action


def walk(schedule: Schedule, blocking: bool = False) -> Iterator[tuple[int, Action]]:
    """Yield (rank, action) in an order in which a complete schedule can run, or say who waits."""
    at = [0] * schedule.ranks  # what each rank does next
    sending: list[tuple[int, Action] | None] = [None] * schedule.ranks
    done: set[tuple[int, Action]] = set()

    def next_of(rank: int) -> Action | None:
        order = schedule.orders[rank]
        return order[at[rank]] if at[rank] < len(order) else None

    while True:
        moved = False
        for rank in range(schedule.ranks):
            while True:
                send = sending[rank]
                if send is not None:
                    here = next_of(send[0])
                    if (send[0], send[1]) in done or (
                        here is not None and same(here) == send[1] and sending[send[0]] is None
                    ):
                        sending[rank] = None
                        moved = True
                        continue
                    break
                action = next_of(rank)
                if action is None:
                    break
                source = schedule.source(rank, action)
                if source is not None and source not in done:
                    break
                yield rank, action
                moved = True
                done.add((rank, same(action)))
                at[rank] += 1
                target = schedule.target(rank, action)
                if blocking and target is not None and target[0] != rank:
                    sending[rank] = target
        if not moved:
            break
    if any(next_of(rank) for rank in range(schedule.ranks)) or any(sending):
        raise ScheduleError(_stuck(schedule, at, sending))


def _stuck(schedule: Schedule, at: list[int], sending: list) -> str:
    lines = []
    for rank, order in enumerate(schedule.orders):
        if (send := sending[rank]) is not None:
            lines.append(
                f"rank {rank} sends the result of {order[at[rank] - 1]}, and waits for rank "
                f"{send[0]} to receive it (for {send[1]})"
            )
        elif at[rank] < len(order):
            action = order[at[rank]]
            source = schedule.source(rank, action)
            if source is not None:
                there, awaited = source
                if awaited not in schedule.orders[there]:  # it does the two parts, and I brings it
                    awaited = awaited._replace(kind="I")
                lines.append(f"rank {rank} waits at {action} for rank {there} to do {awaited}")
    return "\n  ".join([f"{schedule.name}: nobody can go on.", *lines])
