"""Digits by replicas that go their own way: drift, the noise behind it, paced ranks, links."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from helpers.data_parallel.digits import judge, small
from helpers.data_parallel.drift import Followed, Path, bytes_sent, middle

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

    from helpers.data_parallel.history import History
    from helpers.data_parallel.scheme import Scheme


@dataclass
class Run:
    """What one run left on one rank.

    Parameters
    ----------
    history : History
        The same on all ranks, but for the weights where replicas differ.
    epochs : float
        Until the loss was low enough; infinite if it never was.
    loss : float
        Of the last weights on the data that nobody trained with.
    accuracy : float or None
        The same for digits.
    path : Path
        Where this replica was, if it was followed.
    """

    history: History
    epochs: float = float("inf")
    loss: float = float("nan")
    accuracy: float | None = None
    path: Path = field(default_factory=Path)


def world() -> Intracomm:
    """Return the ranks, with one thread for each.

    Returns
    -------
    mpi4py.MPI.Intracomm
        Of all.
    """
    import torch
    from mpi4py import MPI

    torch.set_num_threads(1)
    return MPI.COMM_WORLD


def paced(seconds: float | None) -> Callable[[float], float] | None:
    """Make a replica's ``delay`` that lets every gradient take ``seconds``: a device of that speed.

    Parameters
    ----------
    seconds : float or None
        The pace; None: no delay.

    Returns
    -------
    callable or None
        Seconds that a gradient took → seconds to sleep.
    """
    return None if seconds is None else lambda took: max(0.0, seconds - took)


def digits(
    scheme: Callable[[Intracomm], Scheme],
    comm: Intracomm | None = None,
    *,
    steps: int = 200,
    batch: int = 16,
    rate: float = 0.05,
    momentum: float = 0.0,
    inner: str = "SGD",
    sorted_share: float = 0.0,
    seed: int = 0,
    pace: float | None = None,
    follow: int = 0,
) -> Run:
    """Train the small perceptron on the digits, each worker with samples of its own; all call.

    Parameters
    ----------
    scheme : callable
        Makes the scheme of a communicator.
    comm : mpi4py.MPI.Intracomm, optional
        :func:`world` unless given.
    steps, batch : int
        Updates, and B of one worker.
    rate, momentum : float
        Of the optimizer.
    inner : {"SGD", "AdamW"}
        Which optimizer moves a replica.
    sorted_share : float
        How much of the data is sorted by class: see :func:`helpers.data_parallel.partition.parts`.
    seed : int
        Of weights and samples.
    pace : float, optional
        Seconds of one gradient.
    follow : int
        Keep the path every so many steps; 0: not.

    Returns
    -------
    Run
        With loss and accuracy on the test digits.

    Raises
    ------
    ValueError
        For another optimizer.
    """
    import torch
    from torch.nn.functional import cross_entropy

    from helpers.data_parallel.loop import train
    from helpers.data_parallel.partition import batches, parts
    from helpers.data_parallel.replica import Replica
    from helpers.data_parallel.runs import digits as load

    comm = world() if comm is None else comm
    rank, data, model = comm.Get_rank(), load(), small(seed)
    if inner not in ("SGD", "AdamW"):
        raise ValueError(f"inner expects 'SGD' or 'AdamW'; got {inner!r}")
    optimizer = (
        torch.optim.AdamW(model.parameters(), lr=rate)
        if inner == "AdamW"
        else torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum)
    )
    mine = parts(data.train_labels, comm.Get_size(), sorted_share, seed)[rank]
    stream = batches(data.train_images, data.train_labels, mine, batch, 100 * seed + rank)
    made = Followed(scheme(comm), follow or 1 << 60)
    replica = Replica(model, cross_entropy, optimizer, delay=paced(pace))
    history = train(replica, stream, made, steps=steps)
    assert history.weights is not None
    loss, accuracy = judge(history.weights)
    return Run(history, loss=loss, accuracy=accuracy, path=made.path)


def average_time(parameters: int, repeats: int = 5) -> float:
    """Time one average of all parameters by the ring; all ranks call.

    Parameters
    ----------
    parameters : int
        P.
    repeats : int
        Of which the median is taken, after one more.

    Returns
    -------
    float
        Seconds, of the slowest rank.
    """
    import torch
    from mpi4py import MPI

    from helpers.data_parallel.schemes.local import ring_average

    comm, values, taken = world(), torch.ones(parameters), []
    for _ in range(repeats + 1):
        comm.Barrier()
        begin = time.perf_counter()
        ring_average(values, comm)
        taken.append(time.perf_counter() - begin)
    return comm.allreduce(statistics.median(taken[1:]), MPI.MAX)


def steps_to(runs: list[Run], target: float) -> int | None:
    """Find when the mean network's loss on the test digits was low enough for the first time.

    Parameters
    ----------
    runs : list of Run
        Of all ranks, followed.
    target : float
        The cross-entropy.

    Returns
    -------
    int or None
        Steps made; None if it never was.
    """
    steps, values = middle([run.path for run in runs])
    for step, weights in zip(steps, values, strict=True):
        if judge(weights)[0] <= target:
            return step
    return None


def link_time(parameters: int, ranks: int, payload: float, latency: float = 60e-6) -> float:
    """Predict one average by a ring between hosts: 2(R − 1) messages, 2(R − 1)/R of all bytes.

    Parameters
    ----------
    parameters, ranks : int
        P and R.
    payload : float
        Bytes/s of a link: ``Network(...).payload``.
    latency : float
        Seconds of a short message.

    Returns
    -------
    float
        Seconds.
    """
    rounds = 2 * (ranks - 1)
    return rounds * latency + bytes_sent(parameters, ranks, 1) / payload
