"""What the tests of SGD run on their ranks."""

from __future__ import annotations

import time

import numpy as np

from helpers.datasets import mnist


def _comm():
    import torch
    from mpi4py import MPI

    torch.set_num_threads(1)
    return MPI.COMM_WORLD


def four_ways(steps: int, batch: int) -> dict[str, np.ndarray]:
    """Weights after ``steps`` by every way of synchronising, on every rank."""
    import torch.distributed as dist

    import helpers.torch_mpi  # noqa: F401
    from helpers.data_parallel import synchronous

    comm, digits = _comm(), mnist.load()
    dist.init_process_group("mpi4py", init_method="mpi://")
    data = digits.train_images, digits.train_labels
    settings = {"steps": steps, "batch": batch, "rate": 0.02}
    found = {
        way: synchronous.train(*data, comm, way=way, **settings).weights for way in synchronous.WAYS
    }
    dist.destroy_process_group()
    return found


def synchronous_with_server(steps: int, batch: int) -> np.ndarray:
    from helpers.data_parallel import server

    digits = mnist.load()
    settings = {"steps": steps, "batch": batch, "rate": 0.02}
    return server.train(digits.train_images, digits.train_labels, _comm(), **settings).weights


def train_to_accuracy(steps: int) -> float:
    from helpers.data_parallel import synchronous
    from helpers.models.lenet import accuracy_of

    comm, digits = _comm(), mnist.load()
    history = synchronous.train(
        digits.train_images, digits.train_labels, comm, steps=steps, batch=8, rate=0.02
    )
    return accuracy_of(history.weights, digits)


def asynchronous(stop: dict, **settings):
    from helpers.data_parallel import asynchronous as module

    digits = mnist.load()
    settings = {"momentum": 0.0, "patience": 3.0} | settings
    return module.train(
        digits.train_images, digits.train_labels, _comm(), stop=module.Stop(**stop), **settings
    )


def with_settings(stop: dict, settings: dict):
    return asynchronous(stop, **settings)


class _Hesitant:
    """A communicator that pauses before each layer, so that others may speak in between."""

    def __init__(self, comm):
        self._comm = comm

    def __getattr__(self, name):
        return getattr(self._comm, name)

    def Isend(self, *args):  # noqa: N802 (mpi4py's own spelling)
        time.sleep(5e-4)
        return self._comm.Isend(*args)


def whole_pushes(pushes: int) -> list[tuple[int, list[float]]] | None:
    """Workers push gradients made of their rank; on rank 0, (worker, what each update took off)."""
    from helpers.data_parallel import asynchronous as module
    from helpers.data_parallel.history import History

    comm, sizes = _comm(), [50_000, 3, 1, 20_000]
    rank, workers = comm.Get_rank(), comm.Get_size() - 1
    if rank:
        layers = [np.zeros(size, np.float32) for size in sizes]
        worker = module.Worker(_Hesitant(comm), layers)
        while worker.call([np.full(size, rank, np.float32) for size in sizes]):
            pass
        return None
    values, seen = np.zeros(sum(sizes), np.float32), []

    class Watched(History):
        def record(self, *update):
            super().record(*update)
            seen.append((self.workers[-1], sorted(set((-values).tolist()))))
            values[:] = 0

    history = Watched("watched", workers + 1, 1)
    stop = module.Stop(updates=pushes)
    module.serve(comm, values, sizes, history, rate=1.0, momentum=0.0, stop=stop)
    return seen


def server_that_vanishes() -> str:
    """Rank 0 says nothing at all: the workers end by themselves."""
    from helpers.data_parallel import asynchronous as module

    comm, digits = _comm(), mnist.load()
    if comm.Get_rank() == 0:
        return "vanished"
    return module.work(comm, digits.train_images, digits.train_labels, patience=1.0)


def bad_calls() -> list[str]:
    from helpers.data_parallel import asynchronous as module
    from helpers.data_parallel import server, synchronous

    comm, digits = _comm(), mnist.load()
    data = digits.train_images, digits.train_labels, comm
    messages = []
    for call in (
        lambda: module.train(*data),
        lambda: server.train(*data),
        lambda: synchronous.train(*data, way="pigeons"),
        lambda: synchronous.train(*data, way="torch"),
        lambda: synchronous.train(*data, batch=5000),
        lambda: module.train(*data, faults={1: ("explode", 1)}),
    ):
        try:
            call()
        except ValueError as error:
            messages.append(str(error))
    return messages
