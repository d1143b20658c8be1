"""Train variants of a GRU on a task with several seeds at once, and say what the scores can carry.

The seeds' parameters are stacked and one ``torch.func.vmap`` runs them all: Adam works element by
element, so each seed learns as if it were alone, in a fraction of the time.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from .layers import GRU

# Every variant answers one of the open questions: what does each part do?
VARIANTS: dict[str, dict] = {
    "GRU": {},
    "without reset": {"reset": False},
    "without update": {"update": False},
    "ReLU for tanh": {"activation": "relu"},
    "nothing for tanh": {"activation": "none"},
    "hard sigmoid": {"gate": "hard"},
}


class Reader(nn.Module):
    """Read a sequence with a GRU and classify its last state."""

    def __init__(self, inputs: int, hidden: int, classes: int, **variant):
        super().__init__()
        self.gru = GRU(inputs, hidden, **variant)
        self.answer = nn.Linear(hidden, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (B, C) from x (T, B, I)."""
        return self.answer(self.gru(x)[1][0])


@dataclass(frozen=True)
class Scores:
    """Accuracy of each seed on fresh data, 0 to 1, and what a second set of seeds would show."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean over the seeds."""
        return statistics.fmean(self.values)

    @property
    def margin(self) -> float:
        """Half-width of the 95 % interval of the mean (Student's t)."""
        from scipy.stats import t

        n = len(self.values)
        if n < 2:
            return math.inf
        return float(t.ppf(0.975, n - 1)) * statistics.stdev(self.values) / math.sqrt(n)

    def __str__(self) -> str:
        return f"{self.mean:.3f} ± {self.margin:.3f}"


def train(
    task,
    variant: dict,
    *,
    held_out=None,
    seeds: int = 5,
    hidden: int = 24,
    steps: int = 300,
    batch: int = 32,
    rate: float = 0.01,
    test: int = 512,
    clip: float = 1.0,
    progress: Callable[[int, float], None] | None = None,
) -> Scores:
    """Train ``seeds`` readers of ``task`` with the GRU's ``variant``; return each one's accuracy.

    ``held_out`` is the task to test on (default: fresh draws of ``task``). ``clip`` bounds each
    seed's gradient norm. ``progress(step, loss)`` is called after every step. Raises ValueError for
    fewer than one seed or step.
    """
    if seeds < 1 or steps < 1:
        raise ValueError(f"seeds={seeds}, steps={steps}: expected at least 1 of each")
    readers = []
    for seed in range(seeds):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            readers.append(Reader(task.inputs, hidden, task.classes, **variant))
    parameters, _ = stack_module_state(readers)
    skeleton = readers[0]

    def answers(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return functional_call(skeleton, parameters, (x,))

    every = vmap(answers)
    generators = [torch.Generator().manual_seed(1000 + seed) for seed in range(seeds)]

    def batches(task, size: int) -> tuple[Tensor, Tensor]:
        drawn = [task.draw(size, generator) for generator in generators]
        return tuple(torch.stack(part) for part in zip(*drawn, strict=True))

    optimizer = torch.optim.Adam(parameters.values(), lr=rate)
    for step in range(steps):
        x, labels = batches(task, batch)  # (S, T, B, I), (S, B)
        logits = every(parameters, x)  # (S, B, C)
        losses = nn.functional.cross_entropy(
            logits.flatten(0, 1), labels.flatten(), reduction="none"
        ).view(seeds, batch)
        optimizer.zero_grad()
        losses.mean(1).sum().backward()  # a sum over seeds: no seed's gradient sees another
        _clip_each(parameters.values(), clip)
        optimizer.step()
        if progress:
            progress(step, losses.mean().item())
    with torch.no_grad():
        x, labels = batches(held_out or task, test)
        right = (every(parameters, x).argmax(-1) == labels).float().mean(1)
    return Scores(tuple(right.tolist()))


def _clip_each(parameters, limit: float) -> None:
    """Clip every seed's gradient by its own norm."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    squares = sum((g**2).flatten(1).sum(1) for g in gradients)  # (S)
    scale = (limit / (squares.sqrt() + 1e-12)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale.view(-1, *[1] * (gradient.dim() - 1)))


def differ(one: Scores, other: Scores) -> bool:
    """True if the seeds tell the two apart: Welch's t-test, p < 0.05.

    Two variants are compared over independent draws; with identical scores the answer is False.
    """
    from scipy.stats import ttest_ind

    if len(set(one.values + other.values)) == 1:
        return False
    if statistics.pstdev(one.values) == statistics.pstdev(other.values) == 0:
        return True
    return bool(ttest_ind(one.values, other.values, equal_var=False).pvalue < 0.05)
