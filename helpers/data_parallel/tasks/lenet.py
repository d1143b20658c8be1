"""LeNet on the digits: trained by any scheme, timed, watched; the digits load where it trains."""

from __future__ import annotations

import dataclasses
import functools
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from helpers.collectives.parts import first
from helpers.data_parallel.history import History, Stop
from helpers.data_parallel.tasks import init_distributed
from helpers.data_parallel.theory.time_model import Point
from helpers.datasets import mnist

if TYPE_CHECKING:
    import numpy as np
    from mpi4py.MPI import Intracomm

    from helpers.data_parallel.loop import Watcher
    from helpers.data_parallel.replica import Replica
    from helpers.data_parallel.scheme import Scheme

digits = functools.cache(mnist.load)


def train(
    scheme: Callable[[Intracomm], Scheme],
    comm: Intracomm | None = None,
    *,
    steps: int | None = 100,
    batch: int = 16,
    rate: float = 0.05,
    momentum: float = 0.9,
    seed: int = 0,
    slow: dict[int, float] | None = None,
    pace: float | None = None,
    random: bool = False,
    divide: bool = True,
    stop: Stop | None = None,
    shard: Callable[..., Iterable[int]] | None = None,
    watch: Sequence[Watcher] = (),
    double: bool = False,
) -> History:
    """Train LeNet on the digits by any scheme; every rank calls.

    Parameters
    ----------
    scheme : callable
        The scheme's class; or what else makes one of a communicator, such as
        ``functools.partial(ByFunction, function=sync_gradients)``.
    steps : int, optional
        Updates of the parameters; None leaves the end to ``stop``, or to an asynchronous scheme.
    batch : int
        B, samples of one worker in a step.
    seed : int
        Of rank 0's initial weights, with which all begin, and of the order of the samples.
    slow : dict, optional
        {rank: k} makes a rank k times slower.
    pace : float, optional
        Seconds that each gradient takes, k times as many on a slow rank: ranks that share cores are
        then devices of one speed, as long as they can keep it.
    random : bool
        Whether each gradient's time is drawn from an exponential distribution of the mean ``pace``.
    divide : bool
        Whether each worker has a part of the data of its own. If not, all see the same batches.
    stop : Stop, optional
        What else ends the training, if it comes first.
    shard : callable, optional
        ``shard(count, part, parts, epoch)`` returns the positions of the samples of a worker in an
        epoch, in place of ``divide`` and ``seed``.
    watch : sequence of Watcher
        Who looks on: see :class:`helpers.data_parallel.loop.Watcher`.
    double : bool
        Whether to compute in double precision.
    """
    import numpy as np
    from torch.nn.functional import cross_entropy
    from torch.optim import SGD

    from helpers.data_parallel.flat import Flat, FlatSGD
    from helpers.data_parallel.loop import train as loop
    from helpers.data_parallel.replica import Replica, paced, slower
    from helpers.data_parallel.tasks.sampling import batches
    from helpers.models.lenet import LeNet

    comm = init_distributed() if comm is None else comm
    rank, made = comm.Get_rank(), scheme(comm)
    model = LeNet(seed=seed + rank)  # replicas begin different, as if nobody had fixed the seed
    flat = Flat(model.double() if double else model)
    optimizer = (
        SGD(model.parameters(), lr=rate, momentum=momentum)
        if made.server is None
        else FlatSGD(flat, rate, momentum)
    )
    factor = (slow or {}).get(rank, 1.0)
    delay = None if factor == 1 else slower(factor)
    if pace is not None:
        draw = np.random.default_rng([seed, rank]).exponential
        delay = paced(factor * pace, draw) if random else paced(factor * pace)
    replica = Replica(model, cross_entropy, optimizer, flat=flat, delay=delay)
    part = made.workers.index(rank) if rank in made.workers else 0
    images = digits().train_images
    data = images.astype("float64") if double else images, digits().train_labels
    parts = (part, len(made.workers)) if divide else (0, 1)
    mine = batches(*data, batch, *parts, seed, shard=shard)
    history = loop(replica, mine, made, steps=steps, stop=stop, watch=watch)
    assert history.weights is not None
    history.accuracy = judged_once(history.weights.astype("float32"), comm)
    return history


def judged_once(weights: np.ndarray, comm: Intracomm) -> float:
    """Return this rank's accuracy on the test digits; rank 0 alone judges weights equal to its own.

    Every rank calls; no trace shows what they send.
    """
    import numpy as np
    from mpi4py import MPI

    from helpers.models.lenet import accuracy_of
    from helpers.waiting import doze

    plain = MPI.Intracomm(comm)
    first = plain.bcast(weights)
    own = plain.Get_rank() == 0 or not np.array_equal(weights, first)
    found = accuracy_of(weights, digits()) if own else 0.0
    doze(plain)  # a broadcast would keep the cores of those who wait busy
    accuracy = plain.bcast(found)
    return found if own else accuracy


def alone(**settings: Any) -> History | None:
    """Train on rank 0 alone, as :func:`train` does; the others return None at once and sleep."""
    from mpi4py import MPI

    from helpers.data_parallel.scheme import Scheme

    if init_distributed().Get_rank():
        return None
    history = train(Scheme, MPI.COMM_SELF, **settings)
    history.scheme = "one process"
    return history


def computing(scheme: type[Scheme], **settings: Any) -> list[tuple[float, float]]:
    """Train LeNet as :func:`train` does, and note when this rank computed; every rank calls.

    Return the beginning and end of each gradient, in seconds since the first rank began its first;
    empty on a rank that serves. The ranks share one machine's clock. Before, each rank makes one
    step alone, which is not noted: a process is slow the first time.
    """
    from mpi4py import MPI

    from helpers.data_parallel.scheme import Scheme

    noted: list[list[float]] = []

    class Watched(scheme):  # type: ignore[misc, valid-type]
        def before_backward(self, replica: Replica, step: int) -> None:
            super().before_backward(replica, step)
            noted.append([time.monotonic()])

        def after_backward(self, replica: Replica, step: int) -> None:
            noted[-1].append(time.monotonic())
            super().after_backward(replica, step)
            if self.serves:
                noted.clear()

    comm = init_distributed()
    train(Scheme, MPI.COMM_SELF, **settings | {"steps": 1, "pace": None, "slow": None})
    train(Watched, comm, **settings)
    mine = [(begin, end) for begin, end in (span for span in noted if len(span) == 2)]
    first = min(begin for spans in comm.allgather(mine) for begin, _ in spans)
    return [(begin - first, end - first) for begin, end in mine]


NETWORKS = ("LeNet", "perceptron")
LINKS = ("memory", "TCP")


def time_model(
    ranks: int,
    batches: Iterable[int],
    network: str = "LeNet",
    link: str = "memory",
    steps: int = 30,
) -> list[Point]:
    """Measure several batch sizes on the first ranks; every rank calls, the others get no points.

    ``link`` is the way of the gradients: MPI's allreduce through ``"memory"``, or gloo's over
    ``"TCP"`` (on the loopback interface), as if each rank sat on a machine of its own. All points
    have one T_sync, the median over the batch sizes: it does not depend on them.
    """
    import torch.distributed as dist

    from helpers.data_parallel.theory.time_model import measure
    from helpers.models.lenet import LeNet, perceptron

    if network not in NETWORKS or link not in LINKS:
        raise ValueError(
            f"expected one of {', '.join(NETWORKS)} over one of {', '.join(LINKS)}; "
            f"got {network!r} over {link!r}"
        )
    init_distributed()
    points = []
    with first(ranks) as part:
        group = None
        if link == "TCP":
            loopback = "lo0" if sys.platform == "darwin" else "lo"
            os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)
            group = dist.new_group(list(range(ranks)), backend="gloo")
        allreduce = group and functools.partial(dist.all_reduce, group=group)
        data, name = (digits().train_images, digits().train_labels), f"{network}, {link}"
        for batch in batches if part is not None else ():
            model = LeNet() if network == "LeNet" else perceptron()
            points.append(
                measure(*data, part, batch, steps, model=model, allreduce=allreduce, name=name)
            )
        if group is not None and part is not None:
            dist.destroy_process_group(group)
    if points:
        synchronize = statistics.median(point.synchronize for point in points)
        points = [dataclasses.replace(point, synchronize=synchronize) for point in points]
    return points
