"""What the notebook asks its ranks to do: one call for each scheme; the digits load there."""

from __future__ import annotations

import functools

from helpers.datasets import mnist
from helpers.sgd.history import History
from helpers.sgd.time_model import Point

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
        dist.init_process_group("mpi4py")
    return MPI.COMM_WORLD


def synchronous(comm=None, **settings) -> History:
    """:func:`helpers.sgd.synchronous.train` on the digits, with the accuracy on the test digits."""
    from helpers.sgd import synchronous as module

    comm = world() if comm is None else comm
    data = digits().train_images, digits().train_labels
    return _judged(module.train(*data, comm, **settings))


def with_server(comm=None, **settings) -> History:
    """:func:`helpers.sgd.server.train` on the digits, with the accuracy on the test digits."""
    from helpers.sgd import server as module

    comm = world() if comm is None else comm
    data = digits().train_images, digits().train_labels
    return _judged(module.train(*data, comm, **settings))


def asynchronous(comm=None, updates: int = 200, **settings) -> History:
    """:func:`helpers.sgd.asynchronous.train` on the digits, with the test digits' accuracy."""
    from helpers.sgd import asynchronous as module

    comm = world() if comm is None else comm
    data = digits().train_images, digits().train_labels
    stop = settings.pop("stop", module.Stop(updates=updates))
    return _judged(module.train(*data, comm, stop=stop, **settings))


def time_model(ranks: int, batch: int, steps: int = 10) -> Point | None:
    """Measure one setting on the first ``ranks`` ranks; the same Point on each, None elsewhere."""
    from helpers.sgd.time_model import measure

    comm = world()
    part = comm.Split(0 if comm.Get_rank() < ranks else 1)
    point = None
    if comm.Get_rank() < ranks:
        point = measure(digits().train_images, digits().train_labels, part, batch, steps)
    part.Free()
    comm.Barrier()
    return point


def _judged(history: History) -> History:
    from helpers.sgd.lenet import accuracy_of

    history.accuracy = accuracy_of(history.weights, digits())
    return history
