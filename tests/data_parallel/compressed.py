"""What the tests of compressed training run on their ranks."""

from __future__ import annotations

import functools

import numpy as np


def _rounded(rank, levels):
    from helpers.data_parallel.compression.compressors import Quantised

    return Quantised(levels, seed=rank)


def _schemes() -> dict:
    from helpers.data_parallel.compression.compressors import Dense, Half, Sign, TopK
    from helpers.data_parallel.schemes.compressed import Compressed
    from helpers.data_parallel.schemes.power_sgd import PowerSGD

    made = {}
    for route in ("allgather", "ring"):
        made[f"dense, {route}"] = functools.partial(Compressed, compressor=Dense(), route=route)
        seven = functools.partial(_rounded, levels=7)
        made[f"qsgd, {route}"] = functools.partial(Compressed, compressor=seven, route=route)
    made["half"] = functools.partial(Compressed, compressor=Half())
    made["sign"] = functools.partial(Compressed, compressor=Sign(), feedback=True)
    made["top"] = functools.partial(Compressed, compressor=TopK(0.05), feedback=True)
    made["power"] = functools.partial(PowerSGD, rank=2)
    return made


def weights_and_bytes(steps: int) -> dict:
    """For each scheme: the weights, the bytes of one step as traced, and as its formula says."""
    from mpi4py import MPI

    from helpers import tracing
    from helpers.data_parallel import runs
    from helpers.data_parallel.schemes import MPIAllreduce

    runs.world()
    settings = {"batch": 4, "rate": 0.02, "momentum": 0.0}
    found = {"mpi": (runs.train(MPIAllreduce, MPI.COMM_WORLD, steps=steps, **settings).weights,)}
    for name, scheme in _schemes().items():
        totals, history = [], None
        for count in (1, steps):
            with tracing.record(MPI.COMM_WORLD) as comm:
                kept = []

                def noted(comm, scheme=scheme, kept=kept):
                    kept.append(scheme(comm))
                    return kept[0]

                history = runs.train(noted, comm, steps=count, **settings)
            trace = tracing.gather(comm)
            totals.append(0 if trace is None else sum(trace.bytes_sent().values()))
        says = kept[0].sent(*([] if name == "power" else [len(history.weights)]))
        found[name] = history.weights, (totals[1] - totals[0]) / (steps - 1), says
    return found


def feedback_sums() -> tuple[list, list]:
    """What top-k with feedback has sent in all plus what it still keeps, against all gradients."""
    import torch
    from mpi4py import MPI

    from helpers.data_parallel import Replica, train
    from helpers.data_parallel.compression.compressors import TopK
    from helpers.data_parallel.schemes.compressed import Compressed

    comm = MPI.COMM_WORLD
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1, bias=False)
    start = model.weight.detach().flatten().clone()
    slopes = torch.arange(1.0, 9.0) * (1 + comm.rank)
    replica = Replica(model, lambda z, y: z.sum(), torch.optim.SGD(model.parameters(), lr=1.0))
    scheme = Compressed(comm, TopK(0.125), feedback=True)
    start[:] = torch.from_numpy(comm.bcast(start.numpy()))
    train(replica, [(slopes[None], None)] * 6, scheme)
    left = comm.allreduce(scheme.error) / comm.size
    moved = (start - replica.flat.values).numpy()
    return (moved + left).tolist(), (6 * slopes / (1 + comm.rank) * (comm.size + 1) / 2).tolist()


def refused() -> list[str]:
    """What bad arguments are told."""
    from mpi4py import MPI

    from helpers.data_parallel.compression.compressors import Dense
    from helpers.data_parallel.schemes import Compressed, Hooked, PowerSGD

    told = []
    for call in (
        lambda: Compressed(MPI.COMM_WORLD, Dense(), route="pigeons"),
        lambda: Compressed(MPI.COMM_WORLD, Dense(), True, "ring"),
        lambda: PowerSGD(MPI.COMM_WORLD, 0),
        lambda: Hooked(MPI.COMM_WORLD, "zip"),
    ):
        try:
            call()
        except ValueError as error:
            told.append(str(error))
    return told


def hooked(steps: int) -> dict[str, np.ndarray]:
    """Weights by PyTorch's hooks, which go over ``torch.distributed``."""
    import torch.distributed as dist

    from helpers.data_parallel import runs
    from helpers.data_parallel.schemes import DDP, Hooked

    made = {"none": DDP} | {name: functools.partial(Hooked, hook=name)
                            for name in ("fp16", "PowerSGD", "quantisation")}  # fmt: skip
    settings = {"steps": steps, "batch": 4, "rate": 0.02, "momentum": 0.0}
    found = {name: runs.train(scheme, **settings).weights for name, scheme in made.items()}
    dist.destroy_process_group()
    return found
