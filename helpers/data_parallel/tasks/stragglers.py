"""Backup workers and asynchrony's cures as notebook and claims ask for them, on LeNet."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.data_parallel.history import History
from helpers.data_parallel.tasks import lenet, ranks
from helpers.data_parallel.theory.order_statistics import drawn
from helpers.machine.neighbour import Neighbours


@dataclass(frozen=True)
class Waited:
    """What a run with backup workers left; on rank 0 also each step's arrivals."""

    history: History
    dropped: int
    arrivals: list[dict[int, float]]

    @property
    def seconds(self) -> float:
        """Of a step, on the average."""
        return self.history.seconds[-1] / self.history.updates


def backup(
    backups: int,
    *,
    steps: int = 60,
    least: float = 0.01,
    mean: float = 0.03,
    abandon: bool = False,
    seed: int = 0,
    batch: int = 4,
) -> Waited:
    """Train with backup workers whose gradients take t₀ + an exponential time; every rank calls.

    ``least`` and ``mean`` are t₀ and m in seconds; with ``abandon`` late workers let go of their
    gradient.
    """
    seconds = drawn(least, mean, seed, ranks().Get_rank())
    return _waited(backups, seconds, abandon, steps, seed, batch)


def beside(
    backups: int,
    *,
    neighbours: int = 3,
    work: float = 0.1,
    rest: float = 0.1,
    pace: float = 15e-3,
    steps: int = 60,
    seed: int = 0,
    batch: int = 16,
) -> Waited:
    """Train with backup workers, the last of which shares its core; every rank calls.

    Real processes compute there by fits and starts (``helpers.machine.neighbour``). The other ranks
    keep away from that core, where there are two or more. Late workers finish their
    gradients: a backward pass that computes cannot be stopped.

    Parameters
    ----------
    neighbours : int
        Processes beside the last worker; 0: it has its core for itself.
    work, rest : float
        Seconds, on the average, that each computes and sleeps.
    pace : float
        Seconds that a gradient takes at least (see :mod:`helpers.pace`): ranks that share cores
        among themselves keep it, as long as nobody else is there.
    seed : int
        Of weights and order, and of how long the processes compute and sleep.
    """
    comm = ranks()
    last = comm.Get_rank() == comm.Get_size() - 1
    with _bound(last) as core, Neighbours(neighbours * last, core, work, rest, seed):
        comm.Barrier()
        return _waited(backups, lambda step: pace, False, steps, seed, batch)


def sample(run: Waited) -> np.ndarray:
    """Return the seconds (steps, W) from a step's beginning until each worker's gradient was there.

    ValueError unless it is rank 0's run, and dropped nothing.
    """
    if run.dropped or not run.arrivals:
        raise ValueError(
            f"expected rank 0's run without backup workers; got {len(run.arrivals)} steps with "
            f"{run.dropped} gradients dropped"
        )
    return np.array([[seconds for _, seconds in sorted(one.items())] for one in run.arrivals])


@contextlib.contextmanager
def _bound(last: bool) -> Iterator[int | None]:
    """Bind the last rank to the last core, the others to the rest; yield the core, if there is."""
    if not hasattr(os, "sched_setaffinity"):
        yield None
        return
    everywhere = os.sched_getaffinity(0)
    *others, core = sorted(everywhere)
    os.sched_setaffinity(0, {core} if last or not others else others)
    try:
        yield core
    finally:
        os.sched_setaffinity(0, everywhere)


def _waited(
    backups: int, seconds: Callable[[int], float], abandon: bool, steps: int, seed: int, batch: int
) -> Waited:
    from helpers.data_parallel.schemes import Backup

    scheme = Backup(ranks(), backups, seconds, abandon)
    settings = {"steps": steps, "batch": batch, "rate": 0.02, "seed": seed}
    history = lenet.train(lambda comm: scheme, scheme.comm, **settings)  # type: ignore[arg-type]
    return Waited(history, scheme.dropped, scheme.arrivals)


def by_class(
    backups: int, *, slow: float = 0.03, fast: float = 0.005, steps: int = 150, seed: int = 0,
    batch: int = 8,
) -> tuple[float, float, float]:  # fmt: skip
    """Train where the last worker is slow and alone has the digits 8 and 9; every rank calls.

    Return the accuracy on 8 and 9, on the other digits, and the seconds.
    """
    import torch

    from helpers.data_parallel.schemes import Backup
    from helpers.models.lenet import LeNet, accuracy

    comm, data = ranks(), lenet.digits()
    last = comm.Get_size() - 2  # its part

    def shard(count: int, part: int, parts: int, epoch: int) -> np.ndarray:
        mine = np.flatnonzero((data.train_labels >= 8) == (part == last))
        order = np.random.default_rng([seed, epoch]).permutation(mine)
        return order if part == last else order[part :: parts - 1]

    own = slow if comm.Get_rank() == last + 1 else fast
    scheme = Backup(comm, backups, lambda step: own)
    settings = {"steps": steps, "batch": batch, "rate": 0.02, "seed": seed}
    history = lenet.train(lambda comm: scheme, comm, shard=shard, **settings)  # type: ignore[arg-type]
    assert history.weights is not None
    model, rare = LeNet(), data.test_labels >= 8
    torch.nn.utils.vector_to_parameters(torch.from_numpy(history.weights), model.parameters())
    found = [
        accuracy(model, data.test_images[where], data.test_labels[where]) for where in (rare, ~rare)
    ]
    return found[0], found[1], history.seconds[-1]


def cure(
    kind: str, *, rate: float = 0.05, gradients: int = 400, seed: int = 0, batch: int = 8
) -> tuple[float, float]:
    """Train asynchronously with a cure; return accuracy and mean staleness. Every rank calls.

    `kind` is ``"plain"``; ``"staleness"``, λ divided by each gradient's τ; ``"constant"``, λ
    divided by the mean τ, the cure's simplest rival; or ``"elastic"``, elastic averaging.
    """
    from helpers.data_parallel.schemes import Asynchronous, Elastic, StalenessAware

    comm, period, patience = ranks(), 4, 30.0  # s: ranks share cores with whatever else runs
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
    history = lenet.train(made[kind], comm, **settings)  # type: ignore[arg-type]
    return float(history.accuracy or 0), float(np.mean(history.staleness))
