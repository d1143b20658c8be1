"""The source's experiment: a curve, four layers, workers; and what threads do to processes."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from helpers.data_parallel.drift import Followed
from helpers.data_parallel.local_runs import Run, paced, world
from helpers.data_parallel.scheme import Ended, Scheme

if TYPE_CHECKING:
    import numpy as np
    from mpi4py.MPI import Intracomm

    from helpers.data_parallel.replica import Replica


class _Until(Followed):
    """Ends when the mean loss of an epoch, over all workers, is low enough."""

    def __init__(self, scheme: Scheme, target: float, epoch: int, follow: int):
        super().__init__(scheme, follow or 1 << 60)
        self.target, self.epoch, self.losses = target, epoch, list[float]()
        self.reached = float("inf")

    def before_backward(self, replica: Replica, step: int) -> None:
        # All ranks know the mean loss of the last epoch, and agree
        if step and step % self.epoch == 0:
            mine = sum(replica.history.losses[-self.epoch :]) / self.epoch
            mean = self.comm.allreduce(mine) / self.comm.Get_size()
            if mean <= self.target:
                self.reached = step / self.epoch
                raise Ended
        super().before_backward(replica, step)


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
    pace: float | None = None,
    follow: int = 0,
) -> Run:
    """Fit the source's curve with its four layers, until the loss is low enough; all ranks call.

    Parameters
    ----------
    scheme : callable
        Makes the scheme of a communicator.
    comm : mpi4py.MPI.Intracomm, optional
        :func:`world` unless given.
    count, batch : int
        All samples, and B of one worker: an epoch is count/(R·B) steps.
    rate, momentum : float
        Of SGD.
    most : int
        Epochs at most.
    target : float
        The mean squared error of an epoch, as seen while training, that ends it; 0 runs ``most``.
    seed : int
        Of weights, samples and their order.
    pace : float, optional
        Seconds of one gradient.
    follow : int
        Keep the path every so many steps; 0: not.

    Returns
    -------
    Run
        With the loss on 400 other points.
    """
    import torch
    from torch.nn.functional import mse_loss

    from helpers.data_parallel.loop import train
    from helpers.data_parallel.replica import Replica
    from helpers.data_parallel.sampling import batches
    from helpers.models.curve import FourLayers, samples

    comm = world() if comm is None else comm
    model = FourLayers(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum)
    replica = Replica(model, mse_loss, optimizer, delay=paced(pace))
    x, y = samples(count, seed)
    ranks = comm.Get_size()
    epoch = max(1, count // (ranks * batch))
    made = _Until(scheme(comm), target, epoch, follow)
    mine = batches(x, y, batch, comm.Get_rank(), ranks, seed)
    history = train(replica, mine, made, steps=most * epoch)
    with torch.no_grad():
        others = [torch.from_numpy(part) for part in samples(400, seed + 1000)]
        loss = mse_loss(model(others[0]), others[1]).item()
    return Run(history, made.reached, loss, path=made.path)


def loss_of(weights: np.ndarray, count: int = 400, seed: int = 0) -> float:
    """Compute the loss of the four layers with given parameters.

    Parameters
    ----------
    weights : numpy.ndarray (P,)
        All parameters.
    count, seed : int
        Of the points of the curve that are asked.

    Returns
    -------
    float
        Mean squared error.
    """
    import torch
    from torch.nn.functional import mse_loss

    from helpers.models.curve import FourLayers, samples

    model = FourLayers()
    torch.nn.utils.vector_to_parameters(torch.tensor(weights), model.parameters())
    x, y = (torch.from_numpy(part) for part in samples(count, seed))
    with torch.no_grad():
        return mse_loss(model(x), y).item()


def speed(
    ranks: int, batches: int = 80, pace: float = 10e-3, every: int = 1, repeats: int = 3
) -> float | None:
    """Time a fixed amount of work on the first ranks, each a device of one speed; all ranks call.

    Parameters
    ----------
    ranks : int
        R, how many share the work.
    batches : int
        All mini-batches together.
    pace : float
        Seconds that a device needs for one of them, without messages.
    every : int
        Gradients are averaged every so many steps; 0: never.
    repeats : int
        Of which the median is taken.

    Returns
    -------
    float or None
        Seconds; None on ranks that take no part.
    """
    from typing import cast

    from helpers.data_parallel.schemes.local import SometimesAveraged
    from helpers.waiting import doze

    comm = world()
    part = cast("Intracomm", comm.Split(0 if comm.Get_rank() < ranks else 1))
    taken = []
    if comm.Get_rank() < ranks:
        for _ in range(repeats):
            run = fit(lambda comm: SometimesAveraged(comm, every), part, count=batches * 20,
                      batch=20, most=1, target=0.0, pace=pace)  # fmt: skip
            taken.append(run.history.seconds[-1])
    doze(comm)
    part.Free()
    return statistics.median(taken) if taken else None


def crowd(
    threads: int, batches: int, batch: int = 1000, core: bool = False, size: int | None = None
) -> float:
    """Time this rank's share of the source's work with so many threads; all ranks call.

    Nothing is sent: what slows ranks down here is that they get in each other's way.

    Parameters
    ----------
    threads : int
        Of this rank's PyTorch.
    batches : int
        All mini-batches together, shared out evenly.
    batch : int
        Samples in one.
    core : bool
        Whether this rank is bound to one core, by its number, where the system can (Linux).
    size : int, optional
        Share the work among so many ranks; the others sleep. None: all.

    Returns
    -------
    float
        Seconds until the last rank is done.
    """
    import torch
    from mpi4py import MPI
    from torch.nn.functional import mse_loss

    from helpers.models.curve import FourLayers, samples
    from helpers.waiting import doze

    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), size or comm.Get_size()
    core = core and hasattr(os, "sched_setaffinity")
    everywhere = os.sched_getaffinity(0) if core else set()
    x, y = (torch.from_numpy(part) for part in samples(batch))
    model, took = FourLayers(), 0.0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.set_num_threads(threads)
    try:
        if core:
            os.sched_setaffinity(0, {sorted(everywhere)[rank % len(everywhere)]})
        doze(comm)
        begin = time.perf_counter()
        for _ in range(batches // size if rank < size else 0):
            optimizer.zero_grad()
            mse_loss(model(x), y).backward()
            optimizer.step()
        took = time.perf_counter() - begin
    finally:
        torch.set_num_threads(1)
        if core:
            os.sched_setaffinity(0, everywhere)
    doze(comm)
    return comm.allreduce(took, MPI.MAX)
