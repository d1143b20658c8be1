"""When each rank did what: recorded on ranks, or computed by the model; one to every picture."""

from __future__ import annotations

from dataclasses import dataclass

from helpers.pipeline.schedule import Action, Schedule


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
