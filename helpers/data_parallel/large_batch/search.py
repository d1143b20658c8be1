"""Two tasks on real data at any batch, and the best of equally many rates for each optimizer.

One process computes each batch: notebook 02 has shown that replicas with the mean of their
gradients are exactly that process.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import nn

OPTIMIZERS = ("SGD", "LARS", "Adam", "LAMB")
FIRST = {"SGD": 0.01, "LARS": 0.001, "Adam": 0.0003, "LAMB": 0.001}
RATES = {  # half decades, nine each
    name: tuple(first * 10 ** (i / 2) for i in range(9)) for name, first in FIRST.items()
}
ABSORBED = ("SGD, rate in the momentum", "SGD, corrected")  # for rates that change


@dataclass(frozen=True)
class Labelled:
    """Data with labels, and a network for them."""

    name: str
    train_x: np.ndarray
    train_y: np.ndarray
    test_x: np.ndarray
    test_y: np.ndarray
    model: Callable[[int], nn.Module]


@functools.cache
def digits() -> Labelled:
    """Make the task of a perceptron with 64 hidden units on 4 000 digits; 1 000 others test it."""
    from helpers.datasets import mnist
    from helpers.models.lenet import perceptron

    data = mnist.load()
    return Labelled("digits", data.train_images, data.train_labels, data.test_images,
                data.test_labels, functools.partial(perceptron, hidden=64))  # fmt: skip


@functools.cache
def descriptions(words: int = 1000) -> Labelled:
    """Make the task of naming a Debian package's section from its description's words.

    It has about 3 400 documents, the words weighed by TF-IDF, and a network with 64 hidden units.
    """
    import torch
    from sklearn.feature_extraction.text import TfidfVectorizer

    from helpers.datasets.descriptions import load_descriptions

    snapshot = load_descriptions()
    train, test = snapshot.split(0)
    vectors = TfidfVectorizer(max_features=words, sublinear_tf=True, dtype=np.float32)
    inputs = [vectors.fit_transform([" ".join(d.words) for d in train]).toarray()]
    inputs.append(vectors.transform([" ".join(d.words) for d in test]).toarray())
    labels = [
        np.array([snapshot.sections.index(d.section) for d in part]) for part in (train, test)
    ]

    def model(seed: int) -> torch.nn.Module:
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return torch.nn.Sequential(
                torch.nn.Linear(words, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8)
            )

    return Labelled("descriptions", inputs[0], labels[0], inputs[1], labels[1], model)


TASKS = {"digits": digits, "descriptions": descriptions}


@dataclass(frozen=True)
class Score:
    """What a training came to: test accuracy (0 if it diverged), loss, steps to the target."""

    accuracy: float
    loss: float
    steps: int | None = None


def trained(
    task: Labelled,
    batch: int,
    optimizer: str,
    rate: float,
    *,
    epochs: float = 4,
    seed: int = 0,
    warm_up: float = 0.0,
    target: float | None = None,
) -> Score:
    """Train a task with one batch, optimizer and rate.

    Parameters
    ----------
    batch : int
        B; no more than all training samples are taken.
    optimizer : str
        One of :data:`OPTIMIZERS` or of :data:`ABSORBED`.
    epochs : float
        How often each sample is seen: the same work for every batch.
    warm_up : float
        Epochs over which the rate rises.
    target : float, optional
        Test accuracy at which the training ends.
    """
    import torch
    from torch.nn.functional import cross_entropy

    from helpers.data_parallel.large_batch.optimizers import LAMB, LARS, AbsorbedSGD, warmed
    from helpers.data_parallel.tasks.sampling import batches

    kinds: dict[str, Any] = {
        "SGD": functools.partial(torch.optim.SGD, momentum=0.9),
        "LARS": LARS,
        "Adam": torch.optim.Adam,
        "LAMB": LAMB,
        ABSORBED[0]: AbsorbedSGD,
        ABSORBED[1]: functools.partial(AbsorbedSGD, corrected=True),
    }
    if optimizer not in kinds:
        raise ValueError(f"expected one of {', '.join(kinds)}; got {optimizer!r}")
    torch.set_num_threads(1)  # on busy cores, threads that spin for one another take for ever
    count = len(task.train_y)
    batch = min(batch, count)
    model = task.model(seed)
    moved = kinds[optimizer](model.parameters(), lr=rate)
    each, looks = count // batch, max(1, round(512 / batch))
    steps = max(1, round(epochs * each))
    losses: list[float] = []
    for step, (x, y) in zip(
        range(steps), batches(task.train_x, task.train_y, batch, seed=seed), strict=False
    ):
        moved.param_groups[0]["lr"] = warmed(step, round(warm_up * each), rate)
        model.zero_grad()
        loss = cross_entropy(model(x), y)
        loss.backward()
        moved.step()
        losses.append(loss.item())
        if not math.isfinite(losses[-1]):
            return Score(0.0, math.inf)
        reached = target is not None and (step + 1) % looks == 0 and _accuracy(model, task)
        if reached and target is not None and reached >= target:
            return Score(float(reached), losses[-1], step + 1)
    return Score(_accuracy(model, task), float(np.mean(losses[-each:])))


def _accuracy(model: nn.Module, task: Labelled) -> float:
    from helpers.models.lenet import accuracy

    return accuracy(model, task.test_x, task.test_y)


def gradient_lengths(
    name: str, steps: int, batch: int, rate: float, seed: int = 0
) -> tuple[list[float], list[float]]:
    """Train a task on ranks by SGD, and measure its gradients in every step; every rank calls.

    ``name`` is of one of :data:`TASKS`, ``batch`` B of one replica, and the momentum 0.9. For each
    step return the mean of ‖g‖² over the replicas, and ‖·‖² of their mean gradient.
    """
    import torch
    from mpi4py import MPI
    from torch.nn.functional import cross_entropy

    from helpers.data_parallel.large_batch.noise import Lengths
    from helpers.data_parallel.loop import train
    from helpers.data_parallel.replica import Replica
    from helpers.data_parallel.tasks.sampling import batches

    torch.set_num_threads(1)
    comm, task = MPI.COMM_WORLD, TASKS[name]()
    model = task.model(seed)
    scheme = Lengths(comm)
    replica = Replica(model, cross_entropy, torch.optim.SGD(model.parameters(), rate, 0.9))
    mine = batches(task.train_x, task.train_y, batch, comm.Get_rank(), comm.Get_size(), seed)
    train(replica, mine, scheme, steps=steps)
    return scheme.small, scheme.large
