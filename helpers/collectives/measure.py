"""Time messages and collectives on the ranks, to fit the cost model and to check it.

Run these on every rank of ``comm``: ``cluster.run(allreduce_times, ...)`` in a notebook. Times are
medians, in seconds; every repetition counts the slowest rank. With ``best=True`` they are the
shortest of the repeats instead, which other programs disturb least.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from helpers import timing
from helpers.collectives.parts import FIRST_TAG, Hosts, first, hosts_of
from helpers.collectives.registry import ALGORITHMS
from helpers.waiting import doze

if TYPE_CHECKING:
    from mpi4py import MPI

SIZES = tuple(4**k for k in range(2, 12))  # bytes: 16 B to 4 MB
# For a link of a chosen rate: two far longer than the bytes that it lets pass at once, beyond which
# time is a line, and one of hardly any bytes.
LINK_SIZES = (524_288, 262_144, 64)


def world() -> MPI.Intracomm:
    """Return the communicator of all ranks."""
    from mpi4py import MPI

    return MPI.COMM_WORLD


def _typical(times: Sequence[float], best: bool) -> float:
    return min(times) if best else statistics.median(times)


def ping_pong(
    sizes: Sequence[int] = SIZES,
    repeats: int = 20,
    partner: int = 1,
    best: bool = False,
) -> list[tuple[int, float]] | None:
    """Time messages of each size between rank 0 and ``partner``, the median of the repeats.

    Bytes and seconds one way; None on the other ranks, which sleep so that they do not take the
    cores.
    """
    comm = world()
    rank = comm.Get_rank()
    if not 0 < partner < comm.Get_size():
        raise ValueError(
            f"ping_pong needs rank 0 and another; got partner={partner} of {comm.Get_size()} ranks"
        )
    plays = rank in (0, partner)
    samples = []
    for size in sizes if plays else ():
        buffer = np.zeros(size, np.uint8)
        times = []
        for _ in range(repeats + 2):  # two to warm up
            begin = time.perf_counter()
            if rank == 0:
                comm.Send(buffer, partner, FIRST_TAG)
                comm.Recv(buffer, partner, FIRST_TAG)
            else:
                comm.Recv(buffer, 0, FIRST_TAG)
                comm.Send(buffer, 0, FIRST_TAG)
            times.append((time.perf_counter() - begin) / 2)
        samples.append((size, _typical(times[2:], best)))
    doze(comm)
    return samples if plays else None


def ring_steps(
    sizes: Sequence[int] = SIZES, repeats: int = 9, best: bool = False
) -> list[tuple[int, float]]:
    """Time a step in which all ranks send to the right at the same time; every rank calls.

    Where ranks share cores, or links, this is what a message costs inside a collective.

    Parameters
    ----------
    sizes
        Of each rank's message, in bytes.

    Returns
    -------
    list of (int, float)
        Bytes, and seconds of one step; the same on every rank.
    """
    comm = world()
    n, rank = comm.Get_size(), comm.Get_rank()
    right, left, steps = (rank + 1) % n, (rank - 1) % n, 5
    samples = []
    for size in sizes:
        give, take = np.zeros(size, np.uint8), np.empty(size, np.uint8)

        def step(give: np.ndarray = give, take: np.ndarray = take) -> None:
            for _ in range(steps):
                comm.Sendrecv(give, right, FIRST_TAG, take, left, FIRST_TAG)

        samples.append((size, slowest(step, comm, repeats, best=best) / steps))
    return samples


def addition(size: int = 1 << 20, repeats: int = 20) -> float:
    """Measure γ: the seconds a byte that it takes to add one array of float32 to another."""
    mine, theirs = np.ones(size // 4, np.float32), np.ones(size // 4, np.float32)
    taken = timing.measure(lambda: np.add(mine, theirs, out=mine), repeats=repeats)
    return taken.median / mine.nbytes


def slowest(
    function: Callable[[], object],
    comm: MPI.Intracomm,
    repeats: int,
    warmup: int = 1,
    best: bool = False,
) -> float:
    """Time a call that all ranks make together: the median of the slowest rank's seconds."""
    mine = []
    for _ in range(repeats + warmup):
        comm.Barrier()
        begin = time.perf_counter()
        function()
        mine.append(time.perf_counter() - begin)
    return float(_typical(np.max(comm.allgather(mine[warmup:]), axis=0), best))


def allreduce_times(
    algorithms: Sequence[str],
    sizes: Sequence[int],
    repeats: int = 7,
    ranks: int | None = None,
    best: bool = False,
) -> dict[str, list[float]] | None:
    """Time allreduces of float32 arrays, in place.

    The algorithms take turns within each repetition, so that whatever else disturbs the machine
    disturbs all of them. Return, for each algorithm, seconds for each of ``sizes``; None on ranks
    that took no part.

    Parameters
    ----------
    algorithms : sequence of str
        Of :data:`helpers.collectives.ALGORITHMS`; "MPI_Allreduce" is the library's own.
    sizes : sequence of int
        Of the arrays, in bytes.
    ranks : int, optional
        How many take part, the first ones; the others sleep. None: all.
    """
    with first(world().Get_size() if ranks is None else ranks) as part:
        if part is None:
            return None
        hosts = hosts_of(part)  # once, as a program would: to ask takes messages
        calls = {name: _allreduce(name, hosts) for name in algorithms}
        return function_times(calls, sizes, repeats, part, best)


def _allreduce(name: str, hosts: Hosts) -> Callable[[np.ndarray, MPI.Intracomm], object]:
    """An algorithm in place, or the library's own."""
    from mpi4py import MPI

    if name == "MPI_Allreduce":
        return lambda array, comm: comm.Allreduce(MPI.IN_PLACE, array)
    return lambda array, comm: ALGORITHMS[name].in_place(array, comm, hosts)


def function_times(
    functions: Mapping[str, Callable[[np.ndarray, MPI.Intracomm], object]],
    sizes: Sequence[int],
    repeats: int = 7,
    comm: MPI.Intracomm | None = None,
    best: bool = False,
) -> dict[str, list[float]]:
    """Time allreduces that somebody has written, in turns; every rank calls.

    Parameters
    ----------
    functions
        By name; each is ``function(array, comm)``, whose result is not looked at.
    sizes
        Of the arrays of float32, in bytes.

    Returns
    -------
    dict of str to list of float
        By name, seconds for each of ``sizes``: medians of the slowest rank's.
    """
    whole = comm or world()
    times: dict[str, list[float]] = {name: [] for name in functions}
    for size in sizes:
        array = np.zeros(max(1, size // 4), np.float32)  # zeros: no sum ever overflows
        samples: dict[str, list[float]] = {name: [] for name in functions}
        for repeat in range(repeats + 1):
            for name, function in functions.items():
                call = functools.partial(function, array, whole)
                seconds = slowest(call, whole, repeats=1, warmup=0)
                if repeat:  # the first round warms up
                    samples[name].append(seconds)
        for name, taken in samples.items():
            times[name].append(_typical(taken, best))
    return times


def race(
    algorithms: Sequence[str],
    yours: Mapping[str, Callable[[np.ndarray, MPI.Intracomm], object]],
    sizes: Sequence[int],
    repeats: int = 7,
) -> dict[str, list[float]]:
    """Time the course's algorithms and functions that somebody has written; every rank calls.

    All return a new array. By name, the shortest seconds for each of ``sizes``, in bytes.
    """

    def course(name: str) -> Callable[[np.ndarray, MPI.Intracomm], object]:
        return lambda x, comm: ALGORITHMS[name].in_place(x.copy(), comm)

    ways = {name: course(name) for name in algorithms} | dict(yours)
    timed = function_times(ways, [sizes[0], *sizes], repeats, best=True)
    return {name: times[1:] for name, times in timed.items()}  # the first size warms up
