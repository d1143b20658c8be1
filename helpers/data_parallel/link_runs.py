"""Compressed training as notebook and bench ask for it: by name, on any link, to an accuracy."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.data_parallel.runs import digits, world
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
        One of :data:`NAMES`, or another s or share in its place; or ``"torch, fp16"``: that hook
        of PyTorch's (``schemes.hooked.HOOKS``).
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
    from helpers.data_parallel.schemes import Compressed, Hooked, PowerSGD, Ring

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
    if kind == "torch":
        world()
        return Hooked(comm, rest.strip())
    raise ValueError(f"expected one of {', '.join(NAMES)}; got {name!r}")


def sent(
    name: str | Callable[[Intracomm], Scheme],
    shapes: Sequence[tuple[int, ...]],
    comm: Intracomm | None = None,
) -> float:
    """Return the bytes that a rank sends in one step, by the scheme's own formula.

    Parameters
    ----------
    name : str or callable
        As for :func:`to_accuracy`.
    shapes : sequence of tuple of int
        Of the model's parameters.
    comm : mpi4py.MPI.Intracomm, optional
        The ranks; all of them unless given.

    Returns
    -------
    float
        In bytes, the mean over ranks.
    """
    from helpers.data_parallel.schemes import PowerSGD

    comm = comm or _comm()
    ranks, n = comm.Get_size(), sum(math.prod(shape) for shape in shapes)
    if name == "float32":
        return 2 * (ranks - 1) * 4 * n / ranks
    made: Any = _made(name, comm)
    if isinstance(made, PowerSGD):
        made.shapes = list(shapes)
        return made.sent() / ranks
    return made.sent(n) / ranks


def _made(name: str | Callable[[Intracomm], Scheme], comm: Intracomm) -> Scheme:
    return scheme(name, comm) if isinstance(name, str) else name(comm)


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
    name: str | Callable[[Intracomm], Scheme],
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
    name : str or callable
        As for :func:`scheme`; or what makes a scheme of a communicator.
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
        kept.append(_Judge(_made(name, comm), target, every, pace))
        return kept[0].inner

    settings = {"batch": batch, "rate": rate, "momentum": momentum, "seed": seed}
    history = runs.train(made, _comm(), steps=limit, **settings)  # type: ignore[arg-type]
    if kept[0].reached is None:
        return None, history.seconds[-1] - kept[0].away
    return kept[0].reached


def exchange(name: str, size: int, repeats: int = 5, pace: float = 0.0) -> float:
    """Time what a scheme does between the backward pass and the optimizer; every rank calls.

    PyTorch's hooks send during the backward pass: with them it is timed as well, for one sample.

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
    from helpers.data_parallel.schemes import DDP

    comm = _comm()
    model = torch.nn.Linear(256, size, bias=False)
    replica = Replica(model, lambda z, y: z.sum(), torch.optim.SGD(model.parameters(), lr=0.1))
    made, taken = scheme(name, comm), []
    made.begin(replica)
    noise = torch.randn(size * 256, generator=torch.Generator().manual_seed(comm.Get_rank()))
    x, within = noise[None, :256], isinstance(made, DDP)
    for _ in range(repeats + 1 + 3 * within):  # a hook's first steps differ from the rest
        replica.flat.gradients.copy_(noise)
        comm.Barrier()
        time.sleep(pace)
        began = time.perf_counter()
        replica.backward(x, x) if within else made.after_backward(replica, 0)
        taken.append(max(comm.allgather(time.perf_counter() - began)))
    return float(np.median(taken[-repeats:]))


@functools.cache
def _comm() -> Intracomm:
    import torch
    from mpi4py import MPI

    torch.set_num_threads(1)
    return MPI.COMM_WORLD
