"""Train variants of a GRU on a task with several seeds at once, and say what the scores can carry.

The seeds' parameters are stacked and one product for each step serves them all: Adam works element
by element, so each seed learns as if it were alone, in a fraction of the time.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import stack_module_state

from helpers.recurrent.layers import GRU, Cell
from helpers.recurrent.readers import VARIANTS, Reader, half_life_bias, stacked
from helpers.recurrent.tasks import ForgetOnCue, LongCopy, Task
from helpers.timing import student

__all__ = ["VARIANTS", "Comparison", "Scores", "comparisons", "half_life_bias", "train"]


@dataclass(frozen=True)
class Scores:
    """Accuracy of each seed on fresh data, 0 to 1, with their mean and its 95 % interval.

    >>> mine, yours = Scores((0.9, 0.7, 0.8)), Scores((0.8, 0.6, 0.7))
    >>> print(mine)
    0.800 ± 0.248
    >>> [round(value, 3) for value in mine.against(yours)]  # seed by seed they differ by 0.1
    [0.1, 0.1, 0.1]
    """

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return statistics.fmean(self.values)

    @property
    def margin(self) -> float:
        """Half-width of the 95 % interval of the mean (Student's t)."""
        mean, _, high = student(self.values)
        return high - mean

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.margin:.3f}"

    def against(self, other: Scores) -> tuple[float, float, float]:
        """Return by how much these lie above ``other``, seed by seed: mean, and its 95 % interval.

        Paired, because the same seed gives both the same batches and test set. Raises ValueError
        unless both have the same number of seeds, at least two.
        """
        n = len(self.values)
        if n < 2 or n != len(other.values):
            raise ValueError(f"{n} and {len(other.values)} seeds: expected as many, at least 2")
        return student([a - b for a, b in zip(self.values, other.values, strict=True)])


def train(
    task: Task,
    variant: dict,
    *,
    held_out: Task | None = None,
    seeds: int = 5,
    hidden: int = 24,
    steps: int = 300,
    batch: int = 32,
    rate: float = 0.01,
    half_life: float = 1,
    progress: Callable[[int, float], None] | None = None,
) -> Scores:
    """Train ``seeds`` readers of ``task`` with the GRU's ``variant``; return each one's accuracy.

    ``held_out`` is the task to test on (default: fresh draws of ``task``). Each seed's
    gradient norm is at most 1; ``half_life`` (steps) starts the update gates.
    ``progress(step, loss)`` is called after every step.
    """
    parts = {"half_life": half_life, **variant}  # a variant's own start comes first
    readers = [_reader(seed, task, hidden, parts) for seed in range(seeds)]
    parameters, _ = stack_module_state(readers)
    every = functools.partial(stacked, readers[0])
    generators = [torch.Generator().manual_seed(1000 + seed) for seed in range(seeds)]
    optimizer = torch.optim.Adam(parameters.values(), lr=rate)
    for step in range(steps):
        x, labels = _batches(task, batch, generators)
        logits = every(parameters, x)  # (S, B, C)
        losses = nn.functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), reduction="none"
        ).view(seeds, batch)
        optimizer.zero_grad()
        losses.mean(1).sum().backward()  # a sum over seeds: no seed's gradient sees another
        _clip_each(parameters.values())
        optimizer.step()
        if progress:
            progress(step, losses.mean().item())
    with torch.no_grad():
        x, labels = _batches(held_out or task, 512, generators)
        right = (every(parameters, x).argmax(-1) == labels).float().mean(1)
    return Scores(tuple(right.tolist()))


def _reader(seed: int, task: Task, hidden: int, parts: dict) -> Reader:
    """Make the reader of one seed, and leave torch's own generator as it was."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return Reader(task.inputs, hidden, task.classes, **parts)


def _batches(task: Task, size: int, generators: list[torch.Generator]) -> tuple[Tensor, Tensor]:
    """Draw a batch for each seed: x (S, T, B, I), and the classes (S, B)."""
    drawn = [task.draw(size, generator) for generator in generators]
    x, labels = zip(*drawn, strict=True)
    return torch.stack(x), torch.stack(labels)


@dataclass(frozen=True)
class Comparison:
    """A task, what to test on, and how to train for it; the same for every variant."""

    task: Task
    settings: dict
    held_out: Task | None = None

    def run(self, variant: str | dict | Cell, **changes) -> Scores:
        """Train a variant, or a cell of one's own; ``changes`` override settings.

        A variant is given by its name, or by its parts: a dict as ``VARIANTS`` has them. Raises
        ValueError for a name that is not in ``VARIANTS``.
        """
        if callable(variant):
            variant = {"cell": variant}
        elif isinstance(variant, str):
            if variant not in VARIANTS:
                raise ValueError(f"variant={variant!r}: expected one of {', '.join(VARIANTS)}")
            variant = VARIANTS[variant]
        return train(self.task, variant, held_out=self.held_out, **{**self.settings, **changes})


def comparisons() -> dict[str, Comparison]:
    """Return the two tasks of the notebook and the record."""
    cue, copy = ForgetOnCue(), LongCopy()
    return {
        "forget on cue": Comparison(cue, {"hidden": 4, "steps": 250, "half_life": cue.length}),
        "long copy": Comparison(copy, {"hidden": 12, "steps": 120, "half_life": copy.length}),
    }


def left_before_training(variant: str, seeds: int = 5) -> list[float]:
    """Return ‖∂h_T/∂h_0‖ of an untrained variant on one sequence of the long copy, by seed."""
    task, norms = LongCopy(), []
    x, _ = task.draw(1, torch.Generator().manual_seed(0))
    for seed in range(seeds):
        parts = {"half_life": task.length, **VARIANTS[variant]}
        layer = _reader(seed, task, 12, parts).layer
        J = torch.autograd.functional.jacobian(
            lambda h, layer=layer: layer(x, h)[1].flatten(), torch.zeros(1, 1, 12)
        )
        norms.append(torch.linalg.matrix_norm(J.reshape(12, 12), 2).item())
    return norms


def _clip_each(parameters) -> None:
    """Clip every seed's gradient to a norm of 1."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    squares = sum((g**2).flatten(1).sum(1) for g in gradients)  # (S)
    scale = (1 / (squares.sqrt() + 1e-12)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale.view(-1, *[1] * (gradient.dim() - 1)))


def one_that_forgets(seed: int) -> tuple[GRU, Tensor, tuple[list[float], list[int]]]:
    """Train one small GRU to forget on cue, and draw a sequence for it.

    Return the layer, of four units; a sequence (T, 1, 2); and the T numbers that come in with the
    steps, from 1, at which there is a cue. It takes 250 steps of Adam, of 32 sequences each.
    """
    task = ForgetOnCue(12)
    reader = _reader(seed, task, 4, {})
    layer = reader.layer
    reader.layer = nn.GRU(task.inputs, 4)  # the same numbers in a third of the time
    reader.layer.load_state_dict(layer.state_dict())
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(reader.parameters(), lr=0.02)
    for _ in range(250):
        x, labels = task.draw(32, generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(reader(x), labels).backward()
        optimizer.step()
    layer.load_state_dict(reader.layer.state_dict())
    x, _ = task.draw(1, generator)
    return layer, x, (x[:, 0, 0].tolist(), [t + 1 for t in range(len(x)) if x[t, 0, 1]])
