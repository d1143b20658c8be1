"""What an algorithm is handed, how it cuts a message into parts, and which ranks share a host."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from helpers.waiting import doze

# A message that begins with part c has tag FIRST_TAG + c, so that a trace tells what it carries.
FIRST_TAG = 7000
# mpi4py's, or what has Get_rank, Get_size, Send, Isend, Recv and Sendrecv of it
Communicator = Any
# combine(mine, theirs, theirs_first=True) sets mine to *theirs op mine*, or to *mine op theirs*
Combine = Callable[..., None]
Hosts = tuple[int, ...]  # the host of each rank, numbered in the order in which they appear


def split(size: int, n: int) -> list[slice]:
    """Cut ``size`` elements into ``n`` consecutive slices whose lengths differ by at most one.

    Cutting each of n parts into m pieces gives the same borders as cutting into n·m at once.

    >>> split(7, 3)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 7, None)]
    """
    borders = [size * i // n for i in range(n + 1)]
    return [slice(a, b) for a, b in itertools.pairwise(borders)]


def lengths(parts: list[slice]) -> list[int]:
    """Return the number of elements in each part."""
    return [part.stop - part.start for part in parts]


def consecutive(counts: Iterable[int]) -> list[slice]:
    """Return the slices of parts of the given lengths, laid end to end.

    >>> consecutive([2, 0, 1])
    [slice(0, 2, None), slice(2, 2, None), slice(2, 3, None)]
    """
    parts: list[slice] = []
    start = 0
    for count in counts:
        parts.append(slice(start, start + count))
        start += count
    return parts


def one_host(ranks: int) -> Hosts:
    """Return the hosts of ranks that all share one."""
    return (0,) * ranks


@contextmanager
def first(ranks: int) -> Iterator[Any]:
    """Make a communicator of the first so many ranks, None on the others, which sleep; all call."""
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    here = world.rank < ranks
    part = world.Split(0 if here else 1, world.rank)
    yield part if here else None
    doze(world)
    part.Free()


def hosts_of(comm: Any) -> Hosts:
    """Ask MPI which ranks share memory, by a few small messages; every rank of ``comm`` calls."""
    from mpi4py import MPI

    rank = comm.Get_rank()
    together = comm.Split_type(MPI.COMM_TYPE_SHARED, rank)
    firsts = comm.allgather(together.bcast(rank, root=0))
    together.Free()
    return tuple(list(dict.fromkeys(firsts)).index(first) for first in firsts)
