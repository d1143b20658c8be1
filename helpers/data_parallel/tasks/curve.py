"""The source's experiment: a curve, four layers, workers; and what threads do to processes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from helpers.collectives.parts import first
from helpers.data_parallel.loop import Watcher
from helpers.data_parallel.tasks import ranks as all_ranks
from helpers.data_parallel.tasks.perceptron import Trained, replicas

if TYPE_CHECKING:
    import numpy as np
    from mpi4py.MPI import Intracomm

    from helpers.data_parallel.replica import Replica
    from helpers.data_parallel.scheme import Scheme


class _Until(Watcher):
    """Ends when the mean loss of an epoch, over all workers, is low enough."""

    def __init__(self, comm: Intracomm, target: float, epoch: int):
        self.comm, self.target, self.epoch = comm, target, epoch

    def ended(self, replica: Replica, step: int) -> str:
        if (step + 1) % self.epoch:
            return ""
        mine = sum(replica.history.losses[-self.epoch :]) / self.epoch
        mean = self.comm.allreduce(mine) / self.comm.Get_size()
        return f"loss {mean:.3f}" if mean <= self.target else ""


def fit(
    scheme: Callable[[Intracomm], Scheme],
    comm: Intracomm | None = None,
    *,
    count: int = 1600,
    batch: int = 100,
    rate: float = 0.01,
    momentum: float = 0.9,
    most: int = 300,
    target: float = 0.05,
    seed: int = 0,
    **settings: Any,
) -> Trained:
    """Fit the source's curve with its four layers, until the loss is low enough; all ranks call.

    The result has the loss on 400 other points.

    Parameters
    ----------
    count, batch : int
        All samples, and B of one worker: an epoch is count/(R·B) steps.
    most : int
        Epochs at most.
    target : float
        The mean squared error of an epoch, as seen while training, that ends it; 0 runs ``most``.
    **settings : Any
        As for :func:`helpers.data_parallel.tasks.perceptron.replicas`.
    """
    from torch.nn.functional import mse_loss

    from helpers.data_parallel.tasks.sampling import batches
    from helpers.models.curve import FourLayers, samples

    comm = all_ranks() if comm is None else comm
    rank, size = comm.Get_rank(), comm.Get_size()
    epoch = max(1, count // (size * batch))
    run = replicas(
        FourLayers(seed), mse_loss, batches(*samples(count, seed), batch, rank, size, seed),
        scheme(comm), steps=most * epoch, rate=rate, momentum=momentum,
        watch=[_Until(comm, target, epoch)], **settings,
    )  # fmt: skip
    if run.history.updates < most * epoch:
        run.epochs = run.history.updates / epoch
    assert run.history.weights is not None
    run.loss = loss_of(run.history.weights, 400, seed + 1000)
    return run


def loss_of(weights: np.ndarray, count: int = 400, seed: int = 0) -> float:
    """Return the four layers' mean squared error on ``count`` points, all parameters (P,) given."""
    import torch
    from torch.nn.functional import mse_loss

    from helpers.models.curve import FourLayers, samples

    model = FourLayers()
    torch.nn.utils.vector_to_parameters(torch.tensor(weights), model.parameters())
    x, y = (torch.from_numpy(part) for part in samples(count, seed))
    with torch.no_grad():
        return mse_loss(model(x), y).item()


def speed(ranks: int, batches: int = 80, pace: float = 10e-3, repeats: int = 3) -> float | None:
    """Time a fixed amount of work on the first ranks, each a device of one speed; all ranks call.

    ``batches`` are all mini-batches together; a device needs ``pace`` seconds for one, without
    messages. Return seconds; None on ranks that take no part.
    """
    from helpers.data_parallel.schemes.averaged import Ring

    all_ranks()  # each with one thread
    taken = []
    with first(ranks) as part:
        for _ in range(0 if part is None else repeats):
            run = fit(Ring, part, count=batches * 20, batch=20, most=1, target=0.0, pace=pace)
            taken.append(run.history.seconds[-1])
    return statistics.median(taken) if taken else None


def crowd(threads: int, batches: int, batch: int = 1000) -> float:
    """Return the slowest rank's seconds for the source's work, with so many threads on each rank.

    Every rank calls. Nothing is sent: what slows ranks down here is that they get in each other's
    way. ``batches`` are all mini-batches together, shared out evenly, ``batch`` the samples in one.
    """
    import torch
    from mpi4py import MPI
    from torch.nn.functional import mse_loss

    from helpers.models.curve import FourLayers, samples
    from helpers.waiting import doze

    comm = MPI.COMM_WORLD
    x, y = (torch.from_numpy(part) for part in samples(batch))
    model = FourLayers()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.set_num_threads(threads)
    try:
        doze(comm)
        begin = time.perf_counter()
        for _ in range(batches // comm.Get_size()):
            optimizer.zero_grad()
            mse_loss(model(x), y).backward()
            optimizer.step()
        took = time.perf_counter() - begin
    finally:
        torch.set_num_threads(1)
    doze(comm)
    return comm.allreduce(took, MPI.MAX)
