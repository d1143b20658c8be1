"""Time of an all_reduce on one host, by our backend, PyTorch's ``gloo`` and mpi4py alone.

All peers run on the same ranks, in turns, inside one job. One of them does nothing: a process group
in Python that returns at once shows what ``torch.distributed`` itself takes, the least that any
backend written in Python can reach.

The rows on overlap ask what ``async_op=True`` buys: a computation beside an all_reduce against one
after the other, against the longer of the two, in processor time, and with one rank that is late.
Copying and adding take processor time wherever they run: with a core for each rank, and one thread
that computes on it, the work cannot get less, and the second thread adds some of its own. What
overlaps is the *waiting*, for a rank that is late or for one that a stranger keeps off its core.
"""

from __future__ import annotations

import time

from bench.launch import best, in_turns, on_ranks
from helpers.records import Row

SUITE = "torch_mpi"
SIZES = {"4 KB": 4 << 10, "1 MB": 1 << 20, "8 MB": 8 << 20, "64 MB": 64 << 20}  # bytes
RANKS = (2, 4)
ROUNDS = {"4 KB": 150, "1 MB": 100, "8 MB": 30, "64 MB": 8}  # turns of each; the best is reported
OVERLAPS = 15  # turns of each way to overlap
LATE = 0.01  # seconds


def rows() -> list[Row]:
    """Measure on 2 and 4 ranks; times in microseconds, ours as value, the peer as peer_value."""
    return [Row(**line) for ranks in RANKS for line in on_ranks(ranks, _measure, timeout=600)]


def _measure() -> list[dict]:
    import torch
    import torch.distributed as dist
    from mpi4py import MPI

    import helpers.torch_mpi as ours

    comm = MPI.COMM_WORLD
    size = comm.Get_size()
    dist.init_process_group("mpi4py", init_method="mpi://")
    dist.Backend.register_backend("nothing", _nothing, devices=["cpu"])
    ranks = list(range(size))
    groups = {
        "window": dist.new_group(ranks),
        "network": dist.new_group(ranks, pg_options=ours.Options("network")),
        "gloo": dist.new_group(ranks, backend="gloo"),
        "nothing": dist.new_group(ranks, backend="nothing"),
    }
    lines: list[dict] = []

    def row(name: str, value: float, peer: str, peer_value: float, **parameters) -> None:
        line = {"name": name, "value": value * 1e6, "unit": "µs", "peer": peer}
        line |= {"peer_value": peer_value * 1e6, "parameters": {"ranks": size, **parameters}}
        lines.append(line)

    for label, nbytes in SIZES.items():
        tensor = torch.ones(nbytes // 4)
        buffer = tensor.numpy()
        calls = {
            name: lambda group=group, tensor=tensor: dist.all_reduce(tensor, group=group)
            for name, group in groups.items()
        }
        calls["mpi"] = lambda buffer=buffer: comm.Allreduce(MPI.IN_PLACE, buffer)
        repeats = max(1, min(20, (1 << 20) // nbytes))
        took = best(in_turns(calls, ROUNDS[label], repeats, comm=comm))
        row(f"all_reduce {label}", took["window"], "gloo", took["gloo"], path="window")
        row(f"all_reduce {label}", took["window"], "mpi4py in place", took["mpi"], path="window")
        row(f"all_reduce {label}", took["network"], "mpi4py in place", took["mpi"], path="network")
        if nbytes == min(SIZES.values()):
            name = "all_reduce that does nothing"
            row(name, took["nothing"], "mpi4py in place", took["mpi"], path="none")
    for path in ("window", "network"):
        for name, value, peer, peer_value in _overlap(groups[path], comm):
            row(name, value, peer, peer_value, path=path)
    dist.destroy_process_group()
    return lines


def _nothing(store, rank: int, size: int, timeout):
    """A process group whose all_reduce returns at once."""
    import torch.distributed as dist

    from helpers.torch_mpi.handles import Done

    class Nothing(dist.ProcessGroup):
        def allreduce(self, tensors, opts=None):
            return Done(tensors)

    return Nothing(rank, size)


def _overlap(group, comm):
    """Compute beside a 16 MB all_reduce with async_op, against one after the other."""
    import torch
    import torch.distributed as dist

    tensor = torch.ones(4 << 20)
    a = torch.randn(512, 512)
    last = comm.Get_rank() == comm.Get_size() - 1

    def compute() -> None:
        for _ in range(4):
            torch.mm(a, a)

    def reduce() -> None:
        dist.all_reduce(tensor, group=group)

    def beside() -> None:
        work = dist.all_reduce(tensor, group=group, async_op=True)
        compute()
        work.wait()

    def after() -> None:
        reduce()
        compute()

    def late(call) -> None:
        if last:
            time.sleep(LATE)
        call()

    calls = {"compute": compute, "reduce": reduce, "beside": beside, "after": after}
    took = best(in_turns(calls, OVERLAPS, comm=comm))
    both = {"beside": beside, "after": after}
    used = best(in_turns(both, OVERLAPS, comm=comm, clock=time.process_time))
    waited = {"beside": lambda: late(beside), "after": lambda: late(after)}
    first = best(in_turns(waited, OVERLAPS, comm=_AllButLast(comm)))
    what = "computation during all_reduce 16 MB"
    yield what, took["beside"], "computation before all_reduce", took["after"]
    longer = max(took["compute"], took["reduce"])
    yield what, took["beside"], "the longer of computation and all_reduce", longer
    yield f"{what}, processor time", used["beside"], "computation before all_reduce", used["after"]
    late_by = f"one rank {LATE * 1e3:g} ms late"
    yield f"{what}, {late_by}", first["beside"], "computation before all_reduce", first["after"]


class _AllButLast:
    """``comm``, but the last rank's time does not count: it is the one that others wait for."""

    def __init__(self, comm):
        self._comm = comm
        self.Barrier = comm.Barrier

    def allgather(self, seconds: float) -> list[float]:
        return self._comm.allgather(seconds)[:-1]
