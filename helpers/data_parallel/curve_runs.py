"""The source's experiment: a curve, four layers, workers; and what threads do to processes."""

from __future__ import annotations

import functools
import os
import statistics
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from helpers.data_parallel.drift import Followed
from helpers.data_parallel.local_runs import Run, Task, replicas
from helpers.data_parallel.runs import ranks as all_ranks
from helpers.data_parallel.scheme import Ended, Scheme

if TYPE_CHECKING:
    import numpy as np
    from mpi4py.MPI import Intracomm

    from helpers.data_parallel.replica import Replica


class _Until(Followed):
    """Ends when the mean loss of an epoch, over all workers, is low enough."""

    def __init__(self, scheme: Scheme, every: int, target: float, epoch: int):
        super().__init__(scheme, every)
        self.target, self.epoch = target, epoch

    def before_backward(self, replica: Replica, step: int) -> None:
        """All ranks know the mean loss of the last epoch, and agree."""
        if step and step % self.epoch == 0:
            mine = sum(replica.history.losses[-self.epoch :]) / self.epoch
            mean = self.comm.allreduce(mine) / self.comm.Get_size()
            if mean <= self.target:
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
    **settings: Any,
) -> Run:
    """Fit the source's curve with its four layers, until the loss is low enough; all ranks call.

    Parameters
    ----------
    scheme : callable
        Makes the scheme of a communicator.
    count, batch : int
        All samples, and B of one worker: an epoch is count/(R·B) steps.
    most : int
        Epochs at most.
    target : float
        The mean squared error of an epoch, as seen while training, that ends it; 0 runs ``most``.
    **settings : Any
        As for :func:`helpers.data_parallel.local_runs.replicas`.

    Returns
    -------
    Run
        With the loss on 400 other points.
    """
    from torch.nn.functional import mse_loss

    from helpers.data_parallel.sampling import batches
    from helpers.models.curve import FourLayers, samples

    comm = all_ranks() if comm is None else comm
    epoch = max(1, count // (comm.Get_size() * batch))

    def stream(rank: int, ranks: int, batch: int, seed: int) -> Iterable:
        return batches(*samples(count, seed), batch, rank, ranks, seed)

    def judge(weights: np.ndarray, seed: int) -> tuple[float, None]:
        return loss_of(weights, 400, seed + 1000), None

    until = functools.partial(_Until, target=target, epoch=epoch)
    run = replicas(
        Task(FourLayers, mse_loss, stream, judge), scheme, comm, steps=most * epoch, batch=batch,
        rate=rate, momentum=momentum, watched=until, **settings,
    )  # fmt: skip
    if run.history.updates < most * epoch:
        run.epochs = run.history.updates / epoch
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


def speed(
    ranks: int, batches: int = 80, pace: float = 10e-3, every: int = 1, repeats: int = 3
) -> float | None:
    """Time a fixed amount of work on the first ranks, each a device of one speed; all ranks call.

    Return seconds; None on ranks that take no part.

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
    """
    from typing import cast

    from helpers.data_parallel.schemes.local import SometimesAveraged
    from helpers.waiting import doze

    comm = all_ranks()
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
    batches : int
        All mini-batches together, shared out evenly.
    batch : int
        Samples in one.
    core : bool
        Whether this rank is bound to one core, by its number, where the system can (Linux).
    size : int, optional
        Share the work among so many ranks; the others sleep. None: all.
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
