"""Compressed training as notebook and bench ask for it: by name, on any link, to an accuracy."""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING

import numpy as np

from helpers.data_parallel.runs import digits
from helpers.data_parallel.scheme import Ended

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

    from helpers.data_parallel.replica import Replica
    from helpers.data_parallel.scheme import Scheme

NAMES = (
    "float32", "float16, adding ring", "QSGD, s = 7", "QSGD, s = 1", "QSGD, s = 7, adding ring",
    "sign, feedback", "sign", "top 0.01, feedback", "top 0.01", "PowerSGD, r = 2",
)  # fmt: skip


def scheme(name: str, comm: Intracomm) -> Scheme:
    """Make one of :data:`NAMES`, whose name it then has (``"float32"`` goes by our ring).

    Parameters
    ----------
    name : str
        One of :data:`NAMES`, or another s or share in its place.
    comm : mpi4py.MPI.Intracomm
        The ranks.

    Returns
    -------
    Scheme
        For :func:`helpers.data_parallel.train`.

    Raises
    ------
    ValueError
        For what no name is like.
    """
    from helpers.data_parallel.compression.compressors import Half, Quantised, Sign, TopK
    from helpers.data_parallel.schemes import Compressed, PowerSGD, Ring

    kind, _, rest = name.partition(",")
    feedback, way = "feedback" in rest, "ring" if "adding ring" in rest else "allgather"
    if name == "float32":
        return Ring(comm)
    if kind == "float16":
        return Compressed(comm, Half(), feedback, way)
    if kind == "QSGD":
        levels = int(rest.split("=")[1].split(",")[0])
        return Compressed(comm, lambda rank: Quantised(levels, seed=rank), feedback, way)
    if kind == "sign":
        return Compressed(comm, Sign(), feedback)
    if kind.startswith("top "):
        return Compressed(comm, TopK(float(kind[4:])), feedback)
    if kind == "PowerSGD":
        return PowerSGD(comm, int(rest.split("=")[1]))
    raise ValueError(f"expected one of {', '.join(NAMES)}; got {name!r}")


class _Judge:
    """Looks at the accuracy now and then; its own time does not count."""

    def __init__(self, inner: Scheme, target: float, every: int, pace: float):
        self.inner, self.target, self.every, self.pace = inner, target, every, pace
        self.away = 0.0
        self.reached: tuple[int, float] | None = None
        after, before = inner.after_step, inner.before_backward
        backward = inner.after_backward

        def begin_step(replica: Replica, step: int) -> None:
            if step == 0:
                self.began = time.perf_counter()
            self.step_began = time.perf_counter()
            before(replica, step)

        def computed(replica: Replica, step: int) -> None:
            left = self.pace - (time.perf_counter() - self.step_began)
            if left > 0:
                time.sleep(left)
            backward(replica, step)

        def look(replica: Replica, step: int) -> None:
            after(replica, step)
            if (step + 1) % self.every == 0:
                self._look(replica, step + 1)

        inner.before_backward = begin_step  # type: ignore[method-assign]
        inner.after_backward = computed  # type: ignore[method-assign]
        inner.after_step = look  # type: ignore[method-assign]

    def _look(self, replica: Replica, steps: int) -> None:
        from helpers.models.lenet import accuracy

        start, comm = time.perf_counter(), self.inner.comm
        found = None
        if comm.Get_rank() == 0:
            found = accuracy(replica.model, digits().test_images, digits().test_labels)
        found = comm.bcast(found)
        seconds = start - self.began - self.away
        self.away += time.perf_counter() - start
        if found >= self.target:
            self.reached = steps, seconds
            raise Ended


def to_accuracy(
    name: str,
    target: float = 0.9,
    *,
    limit: int = 400,
    pace: float = 0.0,
    batch: int = 8,
    rate: float = 0.02,
    momentum: float = 0.9,
    every: int = 10,
    seed: int = 0,
) -> tuple[int | None, float]:
    """Train LeNet until it sorts enough test digits right; every rank calls.

    Parameters
    ----------
    name : str
        As for :func:`scheme`.
    target : float
        The accuracy, 0 to 1.
    limit : int
        Steps at most.
    pace : float
        Seconds that a forward and backward pass takes at least: see ``helpers.pace``.
    batch : int
        B of one replica.
    rate, momentum : float
        λ and μ.
    every : int
        Steps from one look at the accuracy to the next.
    seed : int
        Of weights, order and rounding.

    Returns
    -------
    tuple
        Steps (None if ``limit`` was not enough) and seconds without the looks.
    """
    from helpers.data_parallel import runs

    kept = []

    def made(comm: Intracomm) -> Scheme:
        kept.append(_Judge(scheme(name, comm), target, every, pace))
        return kept[0].inner

    settings = {"batch": batch, "rate": rate, "momentum": momentum, "seed": seed}
    history = runs.train(made, _comm(), steps=limit, **settings)  # type: ignore[arg-type]
    if kept[0].reached is None:
        return None, history.seconds[-1] - kept[0].away
    return kept[0].reached


def exchange(name: str, size: int, repeats: int = 5, pace: float = 0.0) -> float:
    """Time what a scheme does between the backward pass and the optimizer; every rank calls.

    Parameters
    ----------
    name : str
        As for :func:`scheme`.
    size : int
        Rows of a matrix of ``size`` × 256 parameters that is trained.
    repeats : int
        Of which the median is taken.
    pace : float
        Seconds of pretended arithmetic before each.

    Returns
    -------
    float
        Seconds: the median over repeats of the slowest rank's time.
    """
    import torch

    from helpers.data_parallel.replica import Replica

    comm = _comm()
    model = torch.nn.Linear(256, size, bias=False)
    replica = Replica(model, lambda z, y: z.sum(), torch.optim.SGD(model.parameters(), lr=0.1))
    made, taken = scheme(name, comm), []
    made.begin(replica)
    noise = torch.randn(size * 256, generator=torch.Generator().manual_seed(comm.Get_rank()))
    for _ in range(repeats + 1):
        replica.flat.gradients.copy_(noise)
        comm.Barrier()
        time.sleep(pace)
        began = time.perf_counter()
        made.after_backward(replica, 0)
        taken.append(max(comm.allgather(time.perf_counter() - began)))
    return float(np.median(taken[1:]))


@functools.cache
def _comm() -> Intracomm:
    import torch
    from mpi4py import MPI

    torch.set_num_threads(1)
    return MPI.COMM_WORLD
