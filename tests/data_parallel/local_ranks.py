"""What the tests of local SGD, DiLoCo and gossip run on their ranks."""

from __future__ import annotations

import functools

import numpy as np

from helpers.data_parallel.drift import Followed
from helpers.data_parallel.runs import ranks as _comm


def _schemes() -> dict:
    from helpers.data_parallel.schemes.diloco import DiLoCo
    from helpers.data_parallel.schemes.gossip import Gossip
    from helpers.data_parallel.schemes.local import (
        NEVER,
        AtTheMean,
        LocalSGD,
        PostLocalSGD,
        SometimesAveraged,
    )

    def growing(step):
        return 1 if step < 3 else 4

    made = functools.partial
    return {
        "H = 1": made(LocalSGD, period=1),
        "H = 3": made(LocalSGD, period=3),
        "at the mean": made(AtTheMean, period=3),
        "never": made(LocalSGD, period=NEVER),
        "schedule": made(LocalSGD, period=growing),
        "post-local": made(PostLocalSGD, period=4, switch=3),
        "sometimes": made(SometimesAveraged, gradients=2, parameters=5),
        "DiLoCo": made(DiLoCo, period=3),
        "DiLoCo, plain": made(DiLoCo, period=3, rate=1.0, momentum=0.0),
        "gossip": made(Gossip, weight=0.25),
        "overlapped": made(Gossip, weight=0.3, overlap=True),
    }


def quadratic(steps: int, rate: float) -> dict[str, tuple]:
    """Each rank pulls towards a point of its own, without noise: where each scheme leads."""
    import torch

    from helpers.data_parallel import Replica, train

    comm = _comm()
    rank, found = comm.Get_rank(), {}
    goal = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64) * (rank + 1) ** 2

    class Point(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.at = torch.nn.Parameter(torch.ones(3, dtype=torch.float64) * (5 + rank))

        def forward(self, x):
            return (rank + 1) * (self.at - x).square().sum() / 2

    for name, scheme in _schemes().items():
        model = Point()
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.5)
        made = Followed(scheme(comm))
        endless = iter(lambda: (goal, goal), None)
        replica = Replica(model, lambda z, _: z, optimizer)
        history = train(replica, endless, made, steps=steps)
        averages = getattr(made.inner, "averages", None)
        found[name] = np.array(made.path.after), history.weights, averages
    return found


def same_batches(steps: int) -> dict[str, np.ndarray]:
    """LeNet, every rank with the same batches: the mean of equal numbers is exact on 2, 4 ranks."""
    from helpers.data_parallel import runs

    settings = {"steps": steps, "batch": 4, "rate": 0.02, "divide": False}
    found = {
        name: runs.train(scheme, _comm(), **settings).weights
        for name, scheme in _schemes().items()
        if name in ("H = 1", "H = 3", "schedule", "post-local", "sometimes", "gossip")
    }
    from mpi4py import MPI

    from helpers.data_parallel import Scheme

    found["one process"] = runs.train(Scheme, MPI.COMM_SELF, **settings).weights
    return found


def dyadic(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Different data, small binary fractions: nothing is rounded; local SGD and one process."""
    import torch
    from mpi4py import MPI

    from helpers.data_parallel import Replica, Scheme, train
    from helpers.data_parallel.schemes.local import LocalSGD

    def weights(scheme, x, y):
        model = torch.nn.Linear(3, 1, bias=False)
        torch.nn.init.ones_(model.weight)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.25, momentum=0.5)
        replica = Replica(model, torch.nn.functional.mse_loss, optimizer)
        return train(replica, iter(lambda: (x, y), None), scheme, steps=steps).weights

    comm = _comm()
    size = comm.Get_size()
    numbers = torch.arange(size * 2 * 3).remainder(5).sub(2).reshape(size * 2, 3)
    x, y = numbers / 2, numbers.sum(1, keepdim=True) / 4
    part = slice(2 * comm.Get_rank(), 2 * comm.Get_rank() + 2)
    return (
        weights(LocalSGD(comm, 1), x[part], y[part]),
        weights(Scheme(MPI.COMM_SELF), x, y),
    )


def counted(steps: int) -> tuple:
    """Bytes and messages of each rank by trace, and how often there was an average."""
    import torch

    from helpers.data_parallel import Replica, train
    from helpers.tracing import gather, record

    comm, found = _comm(), {}
    x = torch.ones(2, 7)
    for name, scheme in _schemes().items():
        model = torch.nn.Linear(7, 12)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        replica = Replica(model, torch.nn.functional.mse_loss, optimizer)
        with record(comm) as traced:
            made = scheme(traced)
            train(replica, iter(lambda: (x, torch.ones(2, 12)), None), made, steps=steps)
        trace = gather(traced)
        told = (trace.bytes_sent(), trace.messages_sent()) if trace else None
        found[name] = told, getattr(made, "averages", None)
    return replica.flat.values.numel(), found


def refused() -> list[str]:
    from helpers.data_parallel.schemes.diloco import DiLoCo
    from helpers.data_parallel.schemes.gossip import Gossip
    from helpers.data_parallel.schemes.local import LocalSGD, PostLocalSGD, SometimesAveraged

    comm, messages = _comm(), []
    for call in (
        lambda: LocalSGD(comm, -1),
        lambda: LocalSGD(comm, 2.5),
        lambda: LocalSGD(comm, lambda step: None),
        lambda: PostLocalSGD(comm, 0, 5),
        lambda: SometimesAveraged(comm, "two"),
        lambda: DiLoCo(comm, 4, rate=0.0),
        lambda: DiLoCo(comm, 4, momentum=1.0),
        lambda: Gossip(comm, weight=0.6),
        lambda: Followed(Gossip(comm), every=0),
    ):
        try:
            call()
        except ValueError as error:
            messages.append(str(error))
    return messages
