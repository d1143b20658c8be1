"""Compressed training by name: to an accuracy, on any link; and one exchange alone."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from helpers.data_parallel.loop import Watcher
from helpers.data_parallel.tasks import lenet, ranks
from helpers.waiting import doze

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

    from helpers.data_parallel.history import History
    from helpers.data_parallel.replica import Replica
    from helpers.data_parallel.scheme import Scheme

NAMES = (
    "float32", "float16, adding ring", "QSGD, s = 7", "QSGD, s = 1", "QSGD, s = 7, adding ring",
    "sign, feedback", "sign", "top 0.01, feedback", "top 0.01", "PowerSGD, r = 2",
)  # fmt: skip


def scheme(name: str, comm: Intracomm) -> Scheme:
    """Make one of :data:`NAMES`, whose name it then has (``"float32"`` goes by our ring).

    Another s or share may stand in a name; ValueError for what no name is like.
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


def sent(
    name: str | Callable[[Intracomm], Scheme],
    shapes: Sequence[tuple[int, ...]],
    comm: Intracomm | None = None,
) -> float:
    """Return the mean over ranks of the bytes that one sends in one step, by the scheme's own
    formula.

    ``name`` is as for :func:`to_accuracy`, ``shapes`` are those of the model's parameters.
    """
    from helpers.data_parallel.schemes import PowerSGD

    comm = comm or ranks()
    size, n = comm.Get_size(), sum(math.prod(shape) for shape in shapes)
    if name == "float32":
        return 2 * (size - 1) * 4 * n / size
    sends: Any = made(name, comm)
    if isinstance(sends, PowerSGD):
        sends.shapes = list(shapes)
        return sends.sent() / size
    return sends.sent(n) / size


def made(name: str | Callable[[Intracomm], Scheme], comm: Intracomm) -> Scheme:
    """Make a scheme of its name, or by what makes one of a communicator."""
    return scheme(name, comm) if isinstance(name, str) else name(comm)


class Judged(Watcher):
    """Ends a training once rank 0's replica is good enough, looking every so many steps."""

    def __init__(self, good: Callable[[Replica], bool], every: int):
        self.good, self.every, self.reached = good, every, False

    def ended(self, replica: Replica, step: int) -> str:
        if (step + 1) % self.every:
            return ""
        comm = ranks()
        self.reached = self.good(replica) if comm.Get_rank() == 0 else False
        doze(comm)  # a broadcast would keep the cores of those who wait busy
        self.reached = comm.bcast(self.reached)
        return "good enough" if self.reached else ""

    def steps(self, history: History) -> tuple[int | None, float]:
        """Return the steps of a training, None if they were not enough, and its seconds."""
        return history.updates if self.reached else None, history.seconds[-1]


def to_accuracy(
    name: str | Callable[[Intracomm], Scheme],
    target: float = 0.9,
    *,
    limit: int = 400,
    pace: float = 0.0,
    seed: int = 0,
) -> tuple[int | None, float]:
    """Train LeNet until it sorts enough test digits right; every rank calls.

    Return the steps (None if ``limit`` was not enough) and the seconds without the looks.

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
    """
    from helpers.models.lenet import reaches

    def good(replica: Replica) -> bool:
        data = lenet.digits()
        return reaches(replica.model, data.test_images, data.test_labels, target)

    judged = Judged(good, every=10)
    history = lenet.train(
        lambda comm: made(name, comm), ranks(), steps=limit, batch=8, rate=0.02, seed=seed,
        pace=pace or None, watch=[judged],
    )  # fmt: skip
    return judged.steps(history)


def exchange(name: str, size: int, repeats: int = 9) -> float:
    """Time what a scheme does between the backward pass and the optimizer; every rank calls.

    A matrix of ``size`` × 256 parameters is trained. Return the least over repeats of the slowest
    rank's seconds: what else the machine does only makes an exchange longer.
    """
    import torch

    from helpers.data_parallel.replica import Replica

    comm = ranks()
    model = torch.nn.Linear(256, size, bias=False)
    replica = Replica(model, lambda z, y: z.sum(), torch.optim.SGD(model.parameters(), lr=0.1))
    sends, taken = scheme(name, comm), []
    sends.begin(replica)
    noise = torch.randn(size * 256, generator=torch.Generator().manual_seed(comm.Get_rank()))
    for _ in range(repeats + 1):
        replica.flat.gradients.copy_(noise)
        comm.Barrier()
        began = time.perf_counter()
        sends.after_backward(replica, 0)
        taken.append(max(comm.allgather(time.perf_counter() - began)))
    return min(taken[-repeats:])
