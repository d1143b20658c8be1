"""When does a second replica pay? The time model of synchronous SGD, measured.

An epoch of N samples takes N/B · T_comp alone, and N/(R·B) · (T_comp + T_sync) on R replicas. R
replicas are faster exactly if T_sync / T_comp < R − 1. The model assumes that T_comp stays what it
was alone: one core for each replica.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm
    from torch import nn


ROUNDS = 3  # of a measurement


@dataclass(frozen=True)
class Point:
    """One measured setting; times in seconds per step.

    `alone` is T_comp of a process on an idle machine, `compute` T_comp while all compute,
    `synchronize` the allreduce alone, `step` a whole step as it really went.
    """

    ranks: int
    batch: int
    alone: float
    compute: float
    synchronize: float
    step: float
    name: str = "LeNet"

    @property
    def predicted(self) -> float:
        """Speed-up by the model: R · T_comp / (T_comp + T_sync)."""
        return speedup(self.ranks, self.alone, self.synchronize)

    @property
    def measured(self) -> float:
        """Speed-up as it was: R · T_comp / T_step."""
        return self.ranks * self.alone / self.step


def speedup(ranks: int, compute: float, synchronize: float) -> float:
    """Predict R · T_comp / (T_comp + T_sync): samples per second against one process."""
    if ranks < 1 or compute <= 0 or synchronize < 0:
        raise ValueError(
            f"expected ranks >= 1, compute > 0 s, synchronize >= 0 s; got {ranks}, {compute}, "
            f"{synchronize}"
        )
    return ranks * compute / (compute + synchronize)


def crossing_batch(batches: list[float], ratios: list[float], ranks: int) -> float | None:
    """Find the batch size where T_sync / T_comp falls to R − 1: below it, one process is faster.

    Parameters
    ----------
    batches, ratios
        Batch sizes, ascending, and T_sync / T_comp at each.

    Returns
    -------
    float or None
        Samples at the last crossing, interpolated on logarithmic axes; None without a crossing.
    """
    if ranks < 2:
        return None
    limit = np.log(ranks - 1)
    x, y = np.log(batches), np.log(ratios)
    for i in reversed(range(len(x) - 1)):  # noise may cross before
        if y[i] >= limit > y[i + 1]:
            return float(np.exp(x[i] + (limit - y[i]) * (x[i + 1] - x[i]) / (y[i + 1] - y[i])))
    return None


def fit(points: list[Point]) -> tuple[float, float, float]:
    """Fit T_comp = a + b·B by least squares of the relative error: ``(a, b, T_sync)`` in seconds.

    All points are of one network on one number of ranks; b is per sample, T_sync their median.
    """
    if len({point.batch for point in points}) < 2:
        raise ValueError(f"a line needs points of two batch sizes; got {points}")
    batch, alone = np.array([(point.batch, point.alone) for point in points]).T
    b, a = np.polyfit(batch, alone, 1, w=1 / alone)
    return float(a), float(b), statistics.median(point.synchronize for point in points)


def bytes_sent(parameters: int, ranks: int, averages: float) -> float:
    """Return the bytes that each rank sends for so many averages by a ring: 2(R − 1)/R of P each.

    Local SGD makes steps/H averages. Where R does not divide P, it is the average over the ranks.
    """
    return averages * 2 * (ranks - 1) / ranks * parameters * 4


def link_time(parameters: int, ranks: int, payload: float, latency: float = 60e-6) -> float:
    """Predict the seconds of an average by a ring: 2(R − 1) messages, 2(R − 1)/R of all bytes.

    ``payload`` is a link's bytes/s, ``Network(...).payload``; ``latency`` the seconds of a short
    message.
    """
    rounds = 2 * (ranks - 1)
    return rounds * latency + bytes_sent(parameters, ranks, 1) / payload


def measure(
    images: np.ndarray,
    labels: np.ndarray,
    comm: Intracomm,
    batch: int,
    steps: int = 30,
    *,
    model: nn.Module | None = None,
    allreduce: Callable | None = None,
    name: str = "LeNet",
) -> Point:
    """Measure one setting with one thread on each rank; every rank calls.

    First rank 0 computes alone, then all compute together, then all only synchronise, then all do
    both. Each time is the best of three such rounds: a disturbance hits one of them.
    """
    import torch
    from mpi4py import MPI
    from torch.nn.functional import cross_entropy

    from helpers.data_parallel.flat import Flat
    from helpers.models.lenet import LeNet
    from helpers.waiting import doze

    if steps < 1:
        raise ValueError(f"steps must be at least 1; got {steps}")
    rank, ranks = comm.Get_rank(), comm.Get_size()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    model = LeNet() if model is None else model
    flat = Flat(model)
    gradients = flat.gradients.numpy()
    where = np.arange(rank * batch, (rank + 1) * batch) % len(labels)
    x, y = torch.from_numpy(images[where]), torch.from_numpy(labels[where])

    def compute() -> None:
        cross_entropy(model(x), y).backward()

    def synchronize() -> None:
        if allreduce is None:
            comm.Allreduce(MPI.IN_PLACE, gradients)
        else:
            allreduce(flat.gradients)

    def both() -> None:
        compute()
        synchronize()
        gradients[:] = 0

    def median(call: Callable[[], None]) -> float:
        samples = []
        for _ in range(-(-steps // ROUNDS) + 2):
            began = time.perf_counter()
            call()
            samples.append(time.perf_counter() - began)
        gradients[:] = 0
        return statistics.median(samples[2:])

    best = [float("inf")] * 4
    for _ in range(ROUNDS):
        alone = median(compute) if rank == 0 else None
        doze(comm)  # a broadcast would keep the cores of those who wait busy: rank 0 not alone
        found = [comm.bcast(alone)]
        for call in (compute, synchronize, both):
            comm.Barrier()
            found.append(comm.allreduce(median(call), MPI.MAX))
        best = [min(pair) for pair in zip(best, found, strict=True)]
    torch.set_num_threads(threads)
    alone_s, compute_s, synchronize_s, step = best
    return Point(ranks, batch, alone_s, compute_s, synchronize_s, step, name)
