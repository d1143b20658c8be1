"""Backup workers and asynchrony's cures as notebook and claims ask for them, on LeNet."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.data_parallel import runs
from helpers.data_parallel.history import History
from helpers.data_parallel.order_statistics import drawn
from helpers.data_parallel.runs import digits

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

    from helpers.data_parallel.scheme import Scheme


def backup(
    backups: int,
    *,
    steps: int = 60,
    least: float = 0.01,
    mean: float = 0.03,
    abandon: bool = False,
    seed: int = 0,
    batch: int = 4,
) -> tuple[History, int]:
    """Train with backup workers whose gradients take t₀ + an exponential time; every rank calls.

    Parameters
    ----------
    backups : int
        b of the ranks − 1 workers.
    steps : int
        Updates.
    least, mean : float
        t₀ and m, in seconds.
    abandon : bool
        Whether late workers let go of their gradient.
    seed : int
        Of everything.
    batch : int
        B of one worker.

    Returns
    -------
    tuple of History and int
        The run, and on rank 0 how many gradients came too late.
    """
    from helpers.data_parallel.schemes import Backup

    kept = []

    def made(comm: Intracomm) -> Scheme:
        seconds = drawn(least, mean, seed, comm.Get_rank())
        kept.append(Backup(comm, backups, seconds, abandon))
        return kept[0]

    settings = {"steps": steps, "batch": batch, "rate": 0.02, "seed": seed}
    return runs.train(made, _comm(), **settings), kept[0].dropped  # type: ignore[arg-type]


def by_class(
    backups: int, *, slow: float = 0.03, fast: float = 0.005, steps: int = 150, seed: int = 0,
    batch: int = 8,
) -> tuple[float, float, float]:  # fmt: skip
    """Train where the last worker is slow and alone has the digits 8 and 9; every rank calls.

    Parameters
    ----------
    backups : int
        b.
    slow, fast : float
        Seconds of a gradient of the last worker, and of the others.
    steps : int
        Updates.
    seed : int
        Of weights and order.
    batch : int
        B of one worker.

    Returns
    -------
    tuple of float
        Accuracy on the test digits 8 and 9, on all others, and seconds.
    """
    import torch
    from torch.nn.functional import cross_entropy

    from helpers.data_parallel.flat import Flat
    from helpers.data_parallel.loop import train
    from helpers.data_parallel.optimizers import FlatSGD
    from helpers.data_parallel.replica import Replica
    from helpers.data_parallel.sampling import batches
    from helpers.data_parallel.schemes import Backup
    from helpers.models.lenet import LeNet, accuracy

    comm, data = _comm(), digits()
    rank, workers = comm.Get_rank(), comm.Get_size() - 1
    last = rank == workers
    scheme = Backup(comm, backups, lambda step: slow if last else fast)
    mine = (data.train_labels >= 8) == last
    part = (0, 1) if last or rank == 0 else (rank - 1, workers - 1)
    model = LeNet(seed=seed)
    flat = Flat(model)
    replica = Replica(model, cross_entropy, FlatSGD(flat, 0.02, 0.9), flat=flat)
    order = batches(data.train_images[mine], data.train_labels[mine], batch, *part, seed)
    history = train(replica, order, scheme, steps=steps)
    assert history.weights is not None
    with torch.no_grad():
        flat.values.copy_(torch.from_numpy(history.weights))
    rare = data.test_labels >= 8
    found = [
        accuracy(model, data.test_images[where], data.test_labels[where]) for where in (rare, ~rare)
    ]
    return found[0], found[1], history.seconds[-1]


def cure(
    kind: str, *, rate: float = 0.05, gradients: int = 400, seed: int = 0, batch: int = 8
) -> tuple[float, float]:
    """Train out of step with one of the cures; every rank calls.

    Parameters
    ----------
    kind : {"plain", "staleness", "constant", "elastic"}
        λ as it is; λ divided by each gradient's τ; λ divided by the mean τ, the ranks − 2 (the
        same small rate for all: the cure's simplest rival); elastic averaging.
    rate : float
        λ.
    gradients : int
        That all workers compute together.
    seed : int
        Of weights and order.
    batch : int
        B of one worker.

    Returns
    -------
    tuple of float
        Accuracy on the test digits, and the mean staleness.

    Raises
    ------
    ValueError
        For another kind.
    """
    from helpers.data_parallel.schemes import Asynchronous, Elastic, StalenessAware

    comm, period, patience = _comm(), 4, 30.0  # s: ranks share cores with whatever else runs
    settings = {"batch": batch, "rate": rate, "momentum": 0.0, "seed": seed, "steps": gradients}
    made: dict[str, Any] = {
        "plain": functools.partial(Asynchronous, patience=patience),
        "constant": functools.partial(Asynchronous, patience=patience),
        "staleness": functools.partial(StalenessAware, patience=patience),
    }
    if kind == "elastic":
        made[kind] = lambda comm: Elastic(comm, period, 0.9 / comm.Get_size(), patience=patience)
        settings["steps"] = gradients // period
    if kind not in made:
        raise ValueError(f"expected plain, constant, staleness or elastic; got {kind!r}")
    if kind == "constant":
        settings["rate"] = rate / max(1, comm.Get_size() - 2)
    history = runs.train(made[kind], comm, **settings)  # type: ignore[arg-type]
    return float(history.accuracy or 0), float(np.mean(history.staleness))


def _comm() -> Intracomm:
    import torch
    from mpi4py import MPI

    torch.set_num_threads(1)
    return MPI.COMM_WORLD
