"""Trainings of careless callers, for the tests: each tells what its rank was told."""

from __future__ import annotations

import math


def trained(cases: list[str]) -> list[list[str]]:
    """Train a line on every rank with one thing wrong: the error, or how it ended."""
    import torch
    from mpi4py import MPI
    from torch.utils.data import DataLoader, IterableDataset

    from helpers.data_parallel import Replica, train
    from helpers.data_parallel.schemes import MPIAllreduce

    comm = MPI.COMM_WORLD
    rank = comm.Get_rank()
    one = torch.ones(4, 1)

    class Stream(IterableDataset):
        def __iter__(self):
            return iter([(torch.ones(1), torch.ones(1))] * 8)

    def loader(samples: int) -> DataLoader:
        return DataLoader([(torch.ones(1), torch.ones(1))] * samples, batch_size=4)

    def failing():
        yield one, one
        raise OSError("no such picture")

    def run(case: str) -> list[str]:
        batches, steps = {
            "unequal": (loader(20 + 8 * rank), 7),
            "few": (loader(20), 50),
            "few, of no length": ((batch for batch in loader(20)), 50),
            "negative": (loader(20), -3),
            "half a step": (loader(20), 2.5),
            "another number": (loader(20), 3 + rank),
            "fails": (failing() if rank == 1 else loader(20), 5),
            "nan": ([(one * (math.nan if k and rank == 1 else 1), one) for k in range(3)], 3),
            "partial": ((batch for batch in loader(6 if rank == 1 else 8)), 2),
            "a stream": (DataLoader(Stream(), batch_size=4), 2),
        }[case]
        model = torch.nn.Linear(1, 1)
        replica = Replica(
            model, torch.nn.functional.mse_loss, torch.optim.SGD(model.parameters(), lr=0.01)
        )
        try:
            history = train(replica, batches, MPIAllreduce(comm), steps=steps)
        except (ValueError, RuntimeError) as error:
            return [f"{type(error).__name__}: {error}"]
        return [history.ended, *history.report]

    return [run(case) for case in cases]


def weighed(schemes: list[str]) -> list[list[float]]:
    """Train a line on partial batches by each scheme: the weights, then the losses, at the end."""
    import torch
    from mpi4py import MPI
    from torch.utils.data import DataLoader

    from helpers.data_parallel import Replica, runs, train
    from helpers.data_parallel import schemes as known

    runs.world()  # and torch.distributed
    comm, batch = MPI.COMM_WORLD, 4
    if comm.Get_size() == 1:
        batch = 12  # what three ranks have in a step

    def samples(rank: int) -> list:
        x = torch.arange(1.0 + 10 * rank, 7.0 + 10 * rank + (rank != 1) * 2)[:, None] / 20
        return list(zip(x, x**2, strict=True))

    def trained(name: str, batches: object) -> list[float]:
        torch.manual_seed(0)
        model = torch.nn.Linear(1, 1)
        sgd = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
        replica = Replica(model, torch.nn.functional.mse_loss, sgd)
        history = train(replica, batches, getattr(known, name)(comm), steps=2)
        assert not history.report
        return [*history.weights.tolist(), *history.losses]

    mine = samples(comm.Get_rank())
    if comm.Get_size() == 1:
        parts = [samples(rank) for rank in range(3)]
        mine = [one for k in (0, 4) for part in parts for one in part[k : k + 4]]
    loader = DataLoader(mine, batch_size=batch)
    return [trained(name, data) for name in schemes for data in (loader, list(loader))]


if __name__ == "__main__":
    trained(["fails"])
