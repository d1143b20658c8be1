"""What the tests of SGD run on their ranks."""

from __future__ import annotations

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
    from helpers.sgd import synchronous

    comm, digits = _comm(), mnist.load()
    dist.init_process_group("mpi4py")
    data = digits.train_images, digits.train_labels
    settings = {"steps": steps, "batch": batch, "rate": 0.02}
    found = {
        way: synchronous.train(*data, comm, way=way, **settings).weights for way in synchronous.WAYS
    }
    dist.destroy_process_group()
    return found


def synchronous_with_server(steps: int, batch: int) -> np.ndarray:
    from helpers.sgd import server

    digits = mnist.load()
    settings = {"steps": steps, "batch": batch, "rate": 0.02}
    return server.train(digits.train_images, digits.train_labels, _comm(), **settings).weights


def train_to_accuracy(steps: int) -> float:
    from helpers.sgd import synchronous
    from helpers.sgd.lenet import accuracy_of

    comm, digits = _comm(), mnist.load()
    history = synchronous.train(
        digits.train_images, digits.train_labels, comm, steps=steps, batch=8, rate=0.02
    )
    return accuracy_of(history.weights, digits)


def asynchronous(stop: dict, **settings):
    from helpers.sgd import asynchronous as module

    digits = mnist.load()
    settings = {"momentum": 0.0, "patience": 3.0} | settings
    return module.train(
        digits.train_images, digits.train_labels, _comm(), stop=module.Stop(**stop), **settings
    )


def with_settings(stop: dict, settings: dict):
    return asynchronous(stop, **settings)


def server_that_vanishes() -> str:
    """Rank 0 says nothing at all: the workers end by themselves."""
    from helpers.sgd import asynchronous as module

    comm, digits = _comm(), mnist.load()
    if comm.Get_rank() == 0:
        return "vanished"
    return module.work(comm, digits.train_images, digits.train_labels, patience=1.0)


def bad_calls() -> list[str]:
    from helpers.sgd import asynchronous as module
    from helpers.sgd import server, synchronous

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
