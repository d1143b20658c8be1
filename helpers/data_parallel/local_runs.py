"""Replicas that go their own way: one driver for every task, the digits, paced ranks, links."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from helpers.data_parallel.digits import judge, small
from helpers.data_parallel.drift import Followed, Path, bytes_sent, middle
from helpers.data_parallel.runs import ranks

if TYPE_CHECKING:
    import numpy as np
    from mpi4py.MPI import Intracomm
    from torch import Tensor, nn

    from helpers.data_parallel.history import History
    from helpers.data_parallel.scheme import Scheme


@dataclass
class Run:
    """What one run left on one rank; `epochs` is infinite if the loss never was low enough."""

    history: History
    epochs: float = float("inf")
    loss: float = float("nan")
    accuracy: float | None = None
    path: Path = field(default_factory=Path)


@dataclass(frozen=True)
class Task:
    """What replicas learn; `judge` looks at data that nobody trained with."""

    model: Callable[[int], nn.Module]
    loss: Callable[..., Tensor]
    stream: Callable[[int, int, int, int], Iterable]
    judge: Callable[[np.ndarray, int], tuple[float, float | None]]


def replicas(
    task: Task,
    scheme: Callable[[Intracomm], Scheme],
    comm: Intracomm | None = None,
    *,
    steps: int,
    batch: int,
    rate: float,
    momentum: float = 0.0,
    inner: str = "SGD",
    seed: int = 0,
    pace: float | None = None,
    follow: int = 0,
    watched: Callable[[Scheme, int], Followed] = Followed,
) -> Run:
    """Train a replica on each rank by any scheme; all ranks call.

    `pace` is the time of one gradient in seconds. `follow` keeps the path every so many steps by
    `watched`, which may also end the training.
    """
    import torch

    from helpers.data_parallel.loop import train
    from helpers.data_parallel.replica import Replica, paced

    if inner not in ("SGD", "AdamW"):
        raise ValueError(f"inner expects 'SGD' or 'AdamW'; got {inner!r}")
    comm, model = ranks() if comm is None else comm, task.model(seed)
    optimizer = (
        torch.optim.AdamW(model.parameters(), lr=rate)
        if inner == "AdamW"
        else torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum)
    )
    replica = Replica(model, task.loss, optimizer, delay=None if pace is None else paced(pace))
    stream = task.stream(comm.Get_rank(), comm.Get_size(), batch, seed)
    made = watched(scheme(comm), follow or 1 << 60)
    history = train(replica, stream, made, steps=steps)
    assert history.weights is not None
    loss, accuracy = task.judge(history.weights, seed)
    return Run(history, loss=loss, accuracy=accuracy, path=made.path)


def digits(
    scheme: Callable[[Intracomm], Scheme],
    comm: Intracomm | None = None,
    *,
    steps: int = 200,
    batch: int = 16,
    rate: float = 0.05,
    sorted_share: float = 0.0,
    **settings: Any,
) -> Run:
    """Train the small perceptron on the digits, each worker with samples of its own; all call.

    Parameters
    ----------
    scheme : callable
        Makes the scheme of a communicator.
    steps, batch : int
        Updates, and B of one worker.
    sorted_share : float
        How much of the data is sorted by class: see :func:`helpers.data_parallel.partition.parts`.
    **settings : Any
        As for :func:`replicas`.
    """
    from torch.nn.functional import cross_entropy

    from helpers.data_parallel.partition import batches, parts
    from helpers.data_parallel.runs import digits as load

    def stream(rank: int, ranks: int, batch: int, seed: int) -> Iterable:
        data = load()
        mine = parts(data.train_labels, ranks, sorted_share, seed)[rank]
        return batches(data.train_images, data.train_labels, mine, batch, 100 * seed + rank)

    task = Task(small, cross_entropy, stream, lambda weights, seed: judge(weights))
    return replicas(task, scheme, comm, steps=steps, batch=batch, rate=rate, **settings)


def steps_to(runs: list[Run], target: float) -> int | None:
    """Find the step at which the mean network's loss on test digits first was ``target`` or less.

    ``runs`` are those of all ranks, followed; None if it never was.
    """
    steps, values = middle([run.path for run in runs])
    for step, weights in zip(steps, values, strict=True):
        if judge(weights)[0] <= target:
            return step
    return None


def link_time(parameters: int, ranks: int, payload: float, latency: float = 60e-6) -> float:
    """Predict the seconds of an average by a ring: 2(R − 1) messages, 2(R − 1)/R of all bytes.

    ``payload`` is a link's bytes/s, ``Network(...).payload``; ``latency`` the seconds of a short
    message.
    """
    rounds = 2 * (ranks - 1)
    return rounds * latency + bytes_sent(parameters, ranks, 1) / payload
