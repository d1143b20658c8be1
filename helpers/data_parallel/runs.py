"""What the notebook asks its ranks to do: one call for each scheme; the digits load there."""

from __future__ import annotations

import functools
import os
import sys

from helpers.data_parallel.history import History
from helpers.data_parallel.time_model import Point
from helpers.datasets import mnist

digits = functools.cache(mnist.load)


def world():
    """Return MPI's communicator, with one thread for each rank and torch.distributed begun on it.

    Ranks that share the cores must not each start a thread for every core.
    """
    import torch
    import torch.distributed as dist
    from mpi4py import MPI

    import helpers.torch_mpi  # noqa: F401 (registers the backend "mpi4py")

    torch.set_num_threads(1)
    if not dist.is_initialized():
        dist.init_process_group("mpi4py", init_method="mpi://")
    return MPI.COMM_WORLD


def synchronous(comm=None, **settings) -> History:
    """Train in step on the digits, with the accuracy on the test digits."""
    from helpers.data_parallel import synchronous as module

    comm = world() if comm is None else comm
    data = digits().train_images, digits().train_labels
    return _judged(module.train(*data, comm, **settings))


def with_server(comm=None, **settings) -> History:
    """Train with a server on the digits, with the accuracy on the test digits."""
    from helpers.data_parallel import server as module

    comm = world() if comm is None else comm
    data = digits().train_images, digits().train_labels
    return _judged(module.train(*data, comm, **settings))


def asynchronous(comm=None, updates: int = 200, **settings) -> History:
    """Train asynchronously on the digits, with the accuracy on the test digits."""
    from helpers.data_parallel import asynchronous as module

    comm = world() if comm is None else comm
    data = digits().train_images, digits().train_labels
    stop = settings.pop("stop", module.Stop(updates=updates))
    return _judged(module.train(*data, comm, stop=stop, **settings))


NETWORKS = ("LeNet", "perceptron")
LINKS = ("memory", "TCP")


def time_model(
    ranks: int, batches, network: str = "LeNet", link: str = "memory", steps: int = 10
) -> list[Point]:
    """Measure batch sizes on the first ``ranks`` ranks; their Points on these, [] elsewhere.

    ``link`` is the way of the gradients: MPI's allreduce through ``"memory"``, or gloo's over
    ``"TCP"`` (on the loopback interface), as if each rank sat on a machine of its own. Raises
    ValueError for another link or network.
    """
    import torch.distributed as dist

    from helpers.data_parallel.time_model import measure
    from helpers.models import lenet

    if network not in NETWORKS or link not in LINKS:
        raise ValueError(
            f"expected one of {', '.join(NETWORKS)} over one of {', '.join(LINKS)}; "
            f"got {network!r} over {link!r}"
        )
    comm = world()
    here = comm.Get_rank() < ranks
    part = comm.Split(0 if here else 1)
    group = None
    if link == "TCP":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo0" if sys.platform == "darwin" else "lo")
        group = dist.new_group(list(range(ranks)), backend="gloo")
    points = []
    for batch in batches if here else ():
        model = lenet.LeNet() if network == "LeNet" else lenet.perceptron()
        allreduce = group and functools.partial(dist.all_reduce, group=group)
        data = digits().train_images, digits().train_labels
        name = f"{network}, {link}"
        points.append(
            measure(*data, part, batch, steps, model=model, allreduce=allreduce, name=name)
        )
    part.Free()
    if group is not None and here:
        dist.destroy_process_group(group)
    comm.Barrier()
    return points


def _judged(history: History) -> History:
    from helpers.models.lenet import accuracy_of

    history.accuracy = accuracy_of(history.weights, digits())
    return history
