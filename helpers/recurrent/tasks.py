"""Tasks that separate the parts of a GRU: forgetting on cue, copying over a long gap.

Each task is drawn afresh for every batch: there is nothing to learn by heart. ``draw`` gives
x (T, B, I) and the class of each sequence (B); a model reads x and answers at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor


class Task(Protocol):
    """What can be trained for: sequences of numbers, each with a class."""

    @property
    def inputs(self) -> int:
        """Columns of x."""

    @property
    def classes(self) -> int:
        """Number of classes."""

    def draw(self, batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return ``batch`` sequences, x (T, B, I), and the class of each (B)."""


@dataclass(frozen=True)
class ForgetOnCue:
    """Which sign has the sum of the values since the last cue? (2 classes)

    At each step a value +1 or −1 stands in column 0; with chance ``cue`` column 1 holds a 1, and
    everything before that step no longer counts.

    >>> x, signs = ForgetOnCue(length=5).draw(batch=3, generator=torch.Generator().manual_seed(0))
    >>> x.shape, signs.shape
    (torch.Size([5, 3, 2]), torch.Size([3]))
    """

    length: int = 20  # steps
    cue: float = 0.12  # chance of a cue, per step
    inputs, classes = 2, 2

    def draw(self, batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return x (T, B, 2) and classes (B): 1 where the sum since the last cue is positive."""
        values = torch.randint(0, 2, (self.length, batch), generator=generator) * 2.0 - 1
        cues = (torch.rand(self.length, batch, generator=generator) < self.cue).float()
        total = torch.zeros(batch)
        for value, cue in zip(values, cues, strict=True):
            total = total * (1 - cue) + value
        return torch.stack([values, cues], dim=-1), (total > 0).long()


@dataclass(frozen=True)
class LongCopy:
    """Which of ``classes`` symbols stood at the first step, ``length`` − 1 distractors ago?

    The first step holds the symbol, one-hot; every later one holds +1 or −1 in a column of its own.
    """

    length: int = 40  # steps
    classes: int = 4

    def __post_init__(self) -> None:
        if self.length < 1 or self.classes < 1:
            raise ValueError(
                f"LongCopy expects length and classes of at least 1; got length={self.length!r}, "
                f"classes={self.classes!r}"
            )

    @property
    def inputs(self) -> int:
        """Columns of x: one for each symbol, and one for what distracts."""
        return self.classes + 1

    def draw(self, batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Return x (T, B, classes + 1) and the symbols (B)."""
        symbols = torch.randint(0, self.classes, (batch,), generator=generator)
        x = torch.zeros(self.length, batch, self.inputs)
        x[0, :, :-1] = torch.nn.functional.one_hot(symbols, self.classes).float()
        noise = torch.randint(0, 2, (self.length - 1, batch), generator=generator)
        x[1:, :, -1] = noise * 2.0 - 1
        return x, symbols
