"""Time messages and collectives on the ranks, to fit the cost model and to check it.

Run these on every rank of ``comm``: ``cluster.run(allreduce_times, ...)`` in a notebook. Times are
medians, in seconds; every repetition counts the slowest rank.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np

from helpers.collectives.api import allreduce
from helpers.collectives.parts import TAG
from helpers.waiting import doze

SIZES = tuple(4**k for k in range(2, 12))  # bytes: 16 B to 4 MB


def world(comm=None):
    """Return ``comm``, or MPI.COMM_WORLD for None."""
    if comm is None:
        from mpi4py import MPI

        comm = MPI.COMM_WORLD
    return comm


def ping_pong(sizes: Sequence[int] = SIZES, repeats: int = 20, comm=None) -> list | None:
    """Return (bytes, seconds one way) of messages between ranks 0 and 1; None on other ranks.

    The others sleep meanwhile, so that they do not take the cores.
    """
    comm = world(comm)
    rank = comm.Get_rank()
    if comm.Get_size() < 2:
        raise ValueError("ping_pong needs at least 2 ranks; this communicator has 1")
    samples = []
    for size in sizes if rank < 2 else ():
        buffer = np.zeros(size, np.uint8)
        times = []
        for _ in range(repeats + 2):  # two to warm up
            begin = time.perf_counter()
            if rank == 0:
                comm.Send(buffer, 1, TAG)
                comm.Recv(buffer, 1, TAG)
            else:
                comm.Recv(buffer, 0, TAG)
                comm.Send(buffer, 0, TAG)
            times.append((time.perf_counter() - begin) / 2)
        samples.append((size, statistics.median(times[2:])))
    doze(comm)
    return samples if rank < 2 else None


def ring_steps(sizes: Sequence[int] = SIZES, repeats: int = 9, comm=None) -> list:
    """Return (bytes, seconds) of one step in which all ranks send to the right at the same time.

    Where ranks share cores, or links, this is what a message costs inside a collective.
    """
    comm = world(comm)
    n, rank = comm.Get_size(), comm.Get_rank()
    right, left, steps = (rank + 1) % n, (rank - 1) % n, 5
    samples = []
    for size in sizes:
        give, take = np.zeros(size, np.uint8), np.empty(size, np.uint8)

        def step(give=give, take=take):
            for _ in range(steps):
                comm.Sendrecv(give, right, TAG, take, left, TAG)

        samples.append((size, slowest(step, comm, repeats) / steps))
    return samples


def addition(size: int = 1 << 20, repeats: int = 20) -> float:
    """Return γ: seconds a byte to add one array of float32 into another."""
    mine, theirs = np.ones(size // 4, np.float32), np.ones(size // 4, np.float32)
    times = []
    for _ in range(repeats + 2):
        begin = time.perf_counter()
        np.add(mine, theirs, out=mine)
        times.append(time.perf_counter() - begin)
    return statistics.median(times[2:]) / mine.nbytes


def slowest(function: Callable[[], object], comm, repeats: int, warmup: int = 1) -> float:
    """Return the median over ``repeats`` calls of the slowest rank's seconds, on every rank."""
    mine = []
    for _ in range(repeats + warmup):
        comm.Barrier()
        begin = time.perf_counter()
        function()
        mine.append(time.perf_counter() - begin)
    return float(np.median(np.max(comm.allgather(mine[warmup:]), axis=0)))


def allreduce_times(
    algorithms: Sequence[str], sizes: Sequence[int], repeats: int = 7, ranks=None, comm=None
) -> dict[str, list[float]] | None:
    """Return ``{algorithm: seconds for each of sizes}`` of float32 arrays reduced in place.

    ``sizes`` are bytes; the name "MPI_Allreduce" times the library's own. The algorithms take turns
    within each repetition, so that whatever else disturbs the machine disturbs all of them. With
    ``ranks``, only the first that many take part; the others sleep and return None.
    """
    whole = world(comm)
    comm = whole if ranks is None else whole.Split(0 if whole.Get_rank() < ranks else 1)
    taking_part = ranks is None or whole.Get_rank() < ranks
    times = _timed(algorithms, sizes, repeats, comm) if taking_part else None
    if ranks is not None:
        comm.Free()
        doze(whole)
    return times


def _timed(algorithms, sizes, repeats: int, comm) -> dict[str, list[float]]:
    from mpi4py import MPI

    times: dict[str, list[float]] = {name: [] for name in algorithms}
    for size in sizes:
        array = np.zeros(max(1, size // 4), np.float32)  # zeros: no sum ever overflows
        calls = {
            name: (lambda a=array: comm.Allreduce(MPI.IN_PLACE, a))
            if name == "MPI_Allreduce"
            else (lambda a=array, name=name: allreduce(a, comm, None, name, out=a))
            for name in algorithms
        }
        samples: dict[str, list[float]] = {name: [] for name in algorithms}
        for repeat in range(repeats + 1):
            for name, call in calls.items():
                seconds = slowest(call, comm, repeats=1, warmup=0)
                if repeat:  # the first round warms up
                    samples[name].append(seconds)
        for name in algorithms:
            times[name].append(statistics.median(samples[name]))
    return times
