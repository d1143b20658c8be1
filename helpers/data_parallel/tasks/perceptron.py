"""A small perceptron on the digits, its replicas followed as they go their own way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.data_parallel.tasks import ranks
from helpers.data_parallel.theory.drift import Path, middle

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm
    from torch import Tensor, nn

    from helpers.data_parallel.history import History
    from helpers.data_parallel.loop import Watcher
    from helpers.data_parallel.scheme import Scheme

HIDDEN = 32  # units of the hidden layer: 25 450 parameters


@dataclass
class Trained:
    """What a training left on one rank; `epochs` is infinite if the loss never was low enough."""

    history: History
    epochs: float = float("inf")
    loss: float = float("nan")
    accuracy: float | None = None
    path: Path = field(default_factory=Path)


def small(seed: int = 0) -> nn.Module:
    """Make the small perceptron, 784 → 32 → 10 with 25 450 parameters."""
    from helpers.models.lenet import perceptron

    return perceptron(seed, HIDDEN)


def judge(weights: np.ndarray) -> tuple[float, float]:
    """Return the small perceptron's cross-entropy and accuracy on the test digits."""
    import torch
    from torch.nn.functional import cross_entropy

    from helpers.data_parallel.tasks.lenet import digits

    model, data = small(), digits()
    torch.nn.utils.vector_to_parameters(torch.tensor(weights), model.parameters())
    with torch.no_grad():
        scores = model(torch.from_numpy(data.test_images))
    labels = torch.from_numpy(data.test_labels)
    loss = cross_entropy(scores, labels).item()
    return loss, (scores.argmax(1) == labels).float().mean().item()


def noise(weights: np.ndarray, batch: int = 16, draws: int = 100, seed: int = 0) -> float:
    """Measure σ²: the variance of a mini-batch's gradient, summed over the parameters.

    ``weights`` (P,) say where; the ``draws`` are mini-batches of B digits, from all training
    digits.
    """
    import torch
    from torch.nn.functional import cross_entropy

    from helpers.data_parallel.flat import Flat
    from helpers.data_parallel.tasks.lenet import digits

    model, data = small(), digits()
    torch.nn.utils.vector_to_parameters(torch.tensor(weights), model.parameters())
    flat, rng, found = Flat(model), np.random.default_rng(seed), []
    for _ in range(draws):
        where = rng.choice(len(data.train_labels), batch, replace=False)
        flat.gradients.zero_()
        x, y = (
            torch.from_numpy(data.train_images[where]),
            torch.from_numpy(data.train_labels[where]),
        )
        cross_entropy(model(x), y).backward()
        found.append(flat.gradients.numpy().copy())
    return float(np.var(found, axis=0, ddof=1).sum())


def replicas(
    model: nn.Module,
    loss: Callable[..., Tensor],
    stream: Iterable,
    scheme: Scheme,
    *,
    steps: int,
    rate: float,
    momentum: float = 0.0,
    pace: float | None = None,
    follow: int = 0,
    watch: Sequence[Watcher] = (),
) -> Trained:
    """Train a replica on each rank, on a stream of its own; all ranks call.

    `pace` is the time of one gradient in seconds. `follow` keeps the path every so many steps.
    """
    import torch

    from helpers.data_parallel.loop import train as loop
    from helpers.data_parallel.replica import Replica, paced

    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum)
    replica = Replica(model, loss, optimizer, delay=None if pace is None else paced(pace))
    path = Path(follow or 1 << 60)
    return Trained(loop(replica, stream, scheme, steps=steps, watch=[path, *watch]), path=path)


def train(
    scheme: Callable[[Intracomm], Scheme],
    comm: Intracomm | None = None,
    *,
    steps: int = 200,
    batch: int = 16,
    rate: float = 0.05,
    sorted_share: float = 0.0,
    seed: int = 0,
    **settings: Any,
) -> Trained:
    """Train the small perceptron on the digits, each worker with samples of its own; all call.

    ``batch`` is B of one worker, ``sorted_share`` how much of the data is sorted by class (see
    :func:`helpers.data_parallel.tasks.sampling.parts`); further settings are as for
    :func:`replicas`.
    """
    from torch.nn.functional import cross_entropy

    from helpers.data_parallel.tasks.lenet import digits
    from helpers.data_parallel.tasks.sampling import batches, parts

    comm, data = ranks() if comm is None else comm, digits()
    rank = comm.Get_rank()
    mine = parts(data.train_labels, comm.Get_size(), sorted_share, seed)[rank]
    rng = np.random.default_rng([100 * seed + rank, 13])
    stream = batches(
        data.train_images, data.train_labels, batch, shard=lambda *_: rng.permutation(mine)
    )
    run = replicas(
        small(seed), cross_entropy, stream, scheme(comm), steps=steps, rate=rate, **settings
    )
    assert run.history.weights is not None
    run.loss, run.accuracy = judge(run.history.weights)
    return run


def losses(runs: list[Trained]) -> tuple[list[int], list[float]]:
    """Return steps, and the mean network's loss on test digits there, of all ranks' runs."""
    steps, values = middle([run.path for run in runs])
    return list(steps), [judge(weights)[0] for weights in values]


def steps_to(runs: list[Trained], target: float) -> int | None:
    """Find the step at which the mean network's loss on test digits first was ``target`` or less.

    ``runs`` are those of all ranks, followed; None if it never was.
    """
    steps, values = middle([run.path for run in runs])
    for step, weights in zip(steps, values, strict=True):
        if judge(weights)[0] <= target:
            return step
    return None
