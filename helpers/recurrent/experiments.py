"""Train variants of a GRU on a task with several seeds at once, and say what the scores can carry.

The seeds' parameters are stacked and one product for each step serves them all: Adam works element
by element, so each seed learns as if it were alone, in a fraction of the time.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import stack_module_state

from helpers.intervals import student
from helpers.recurrent.layers import GRU
from helpers.recurrent.tasks import FixedSequences, ForgetOnCue, LongCopy

# Every variant answers one of the open questions: what does each part do? All start with the
# task's half-life, but for the one that starts as PyTorch does, with z = 1/2.
VARIANTS: dict[str, dict] = {
    "GRU": {},
    "PyTorch's start": {"half_life": 1},
    "without reset": {"reset": False},
    "without update": {"update": False},
    "ReLU for tanh": {"activation": "relu"},
    "nothing for tanh": {"activation": "none"},
    "hard sigmoid": {"gate": "hard"},
    "hard, σ's start": {"gate": "hard", "start": "sigmoid"},
}


def half_life_bias(steps: float, gate: str = "sigmoid") -> float:
    """Return the bias b of an update gate σ with σ(b)^steps = 1/2: half is left after ``steps``.

    The idea of Tallec & Ollivier (2018). ``gate`` names σ, one of ``steps.GATES``: each has a bias
    of its own. Raises ValueError unless ``steps`` is positive and the gate known.
    """
    if not steps > 0:
        raise ValueError(f"steps={steps!r}: expected a positive number of steps")
    kept = 0.5 ** (1 / steps)
    if gate == "hard":
        return 6 * (kept - 0.5)  # min(1, max(0, b/6 + 1/2)) = kept
    if gate != "sigmoid":
        raise ValueError(f"gate={gate!r}: expected one of sigmoid, hard")
    return math.log(kept / (1 - kept))


class Reader(nn.Module):
    """Read a sequence with a GRU and classify its last state.

    Before training, the state's half-life is ``half_life`` steps (1: the usual z = 1/2). ``start``
    takes the bias of another gate function than the reader's own.
    """

    def __init__(
        self,
        inputs: int,
        hidden: int,
        classes: int,
        half_life: float = 1,
        start: str | None = None,
        **variant,
    ):
        super().__init__()
        self.gru = GRU(inputs, hidden, **variant)
        self.answer = nn.Linear(hidden, classes)
        gate = start or variant.get("gate", "sigmoid")
        with torch.no_grad():
            self.gru.bias_ih_l0[hidden : 2 * hidden] += half_life_bias(half_life, gate)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (B, C) from x (T, B, I)."""
        return self.answer(self.gru(x)[1][0])


@dataclass(frozen=True)
class Scores:
    """Accuracy of each seed on fresh data, 0 to 1, with their mean and its 95 % interval."""

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


def stacked(reader: Reader, parameters: dict[str, Tensor], x: Tensor) -> Tensor:
    """Return what several readers answer, each to its own batch: logits (S, B, C).

    ``reader`` says of which kind they are, ``parameters`` holds those of all, stacked, and x is
    (S, T, B, I).
    """
    W, U, b, c = (
        parameters[f"gru.{name}_l0"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    S, T, B, _ = x.shape
    gi = torch.baddbmm(b.unsqueeze(1), x.flatten(1, 2), W.mT)  # (S, T·B, 3H): for every step
    c, U_T, h = c.unsqueeze(1), U.mT, x.new_zeros(S, B, reader.gru.hidden_size)
    for gi_t in gi.view(S, T, B, -1).unbind(1):
        h = reader.gru.mix(gi_t, torch.baddbmm(c, h, U_T), h)
    return torch.baddbmm(parameters["answer.bias"].unsqueeze(1), h, parameters["answer.weight"].mT)


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
    half_life: float = 1,
    progress: Callable[[int, float], None] | None = None,
) -> Scores:
    """Train ``seeds`` readers of ``task`` with the GRU's ``variant``; return each one's accuracy.

    ``held_out`` is the task to test on (default: fresh draws of ``task``). ``clip`` bounds each
    seed's gradient norm, ``half_life`` (steps) starts the update gates. ``progress(step, loss)``
    is called after every step. Raises ValueError for fewer than one seed or step.
    """
    if seeds < 1 or steps < 1:
        raise ValueError(f"seeds={seeds}, steps={steps}: expected at least 1 of each")
    readers = []
    for seed in range(seeds):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            parts = {"half_life": half_life, **variant}  # a variant's own start comes first
            readers.append(Reader(task.inputs, hidden, task.classes, **parts))
    parameters, _ = stack_module_state(readers)
    every = functools.partial(stacked, readers[0])
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


@dataclass(frozen=True)
class Comparison:
    """A task, what to test on, and how to train for it; the same for every variant."""

    task: object
    settings: dict
    held_out: object = None

    def run(self, variant: str, **changes) -> Scores:
        """Train the variant of that name; ``changes`` override settings. KeyError if unknown."""
        return train(
            self.task, VARIANTS[variant], held_out=self.held_out, **{**self.settings, **changes}
        )


def comparisons() -> dict[str, Comparison]:
    """Return the three tasks of the notebook and the record: two that separate, one real."""
    gap = LongCopy().length
    return {
        "forget on cue": Comparison(ForgetOnCue(), {"hidden": 4, "steps": 250}),
        "long copy": Comparison(LongCopy(), {"hidden": 12, "steps": 120, "half_life": gap}),
        "section of a package": Comparison(*_first_words()),
    }


def _first_words(words: int = 16) -> tuple[FixedSequences, dict, FixedSequences]:
    """Return the real task: a package's section from the first words of its description."""
    from helpers.datasets.descriptions import load_descriptions
    from helpers.datasets.word_vectors import load_word_vectors

    snapshot = load_descriptions()
    vocabulary, vectors = load_word_vectors()
    row = {word: i for i, word in enumerate(vocabulary)}
    table = torch.cat([torch.from_numpy(vectors), torch.zeros(1, vectors.shape[1])])  # unknown: 0
    parts = []
    for documents in snapshot.split(fold=0):
        ids = [[row.get(w, -1) for w in d.words[:words]] for d in documents]
        labels = [snapshot.sections.index(d.section) for d in documents]
        parts.append(FixedSequences(table[torch.tensor(ids)], torch.tensor(labels), "section"))
    return parts[0], {"hidden": 24, "steps": 300, "half_life": words}, parts[1]


def _clip_each(parameters, limit: float) -> None:
    """Clip every seed's gradient by its own norm."""
    gradients = [p.grad for p in parameters if p.grad is not None]
    squares = sum((g**2).flatten(1).sum(1) for g in gradients)  # (S)
    scale = (limit / (squares.sqrt() + 1e-12)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale.view(-1, *[1] * (gradient.dim() - 1)))


def one_that_forgets(
    seed: int = 0, steps: int = 250, length: int = 12
) -> tuple[GRU, Tensor, tuple[list[float], list[int]]]:
    """Train one small GRU to forget on cue, and draw a sequence for it.

    Parameters
    ----------
    seed : int
        Of its start, its batches and the sequence.
    steps : int
        Of Adam, 32 sequences each.
    length : int
        Of the sequences, T.

    Returns
    -------
    layer : GRU
        Of four units, trained.
    x : torch.Tensor
        A sequence (T, 1, 2).
    signs : tuple
        The numbers that come in, T of them, and the steps, from 1, at which there is a cue.
    """
    task = ForgetOnCue(length)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        reader = Reader(task.inputs, 4, task.classes)
    layer, reader.gru = (
        reader.gru,
        nn.GRU(task.inputs, 4),
    )  # the same numbers in a third of the time
    reader.gru.load_state_dict(layer.state_dict())
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(reader.parameters(), lr=0.02)
    for _ in range(steps):
        x, labels = task.draw(32, generator)
        optimizer.zero_grad()
        nn.functional.cross_entropy(reader(x), labels).backward()
        optimizer.step()
    layer.load_state_dict(reader.gru.state_dict())
    x, _ = task.draw(1, generator)
    return layer, x, (x[:, 0, 0].tolist(), [t + 1 for t in range(len(x)) if x[t, 0, 1]])


def differ(one: Scores, other: Scores) -> bool:
    """True if the seeds tell the two apart: paired t-test, p < 0.05.

    Paired, because the same seed gives both variants the same start, batches and test set. Raises
    ValueError unless both have the same number of seeds, at least two.
    """
    n = len(one.values)
    if n < 2 or n != len(other.values):
        raise ValueError(f"{n} and {len(other.values)} seeds: expected as many, at least 2")
    _, low, high = student([a - b for a, b in zip(one.values, other.values, strict=True)])
    return not low <= 0 <= high  # no difference lies outside the interval at 95 %: p < 0.05
