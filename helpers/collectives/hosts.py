"""Which ranks share a host, that is, memory."""

from __future__ import annotations

from typing import Any

Hosts = tuple[int, ...]  # the host of each rank, numbered in the order in which they appear


def numbered(names: list) -> Hosts:
    """Number hosts in the order in which they appear.

    >>> numbered(["b", "b", "a", "b"])
    (0, 0, 1, 0)
    """
    numbers: dict = {}
    return tuple(numbers.setdefault(name, len(numbers)) for name in names)


def one_host(ranks: int) -> Hosts:
    """Return the hosts of ranks that all share one."""
    return (0,) * ranks


def hosts_of(comm: Any) -> Hosts:
    """Ask MPI which ranks share memory; every rank of ``comm`` must call it.

    Asking costs a few small messages.
    """
    from mpi4py import MPI

    rank = comm.Get_rank()
    together = comm.Split_type(MPI.COMM_TYPE_SHARED, rank)
    first = together.bcast(rank, root=0)
    together.Free()
    return numbered(comm.allgather(first))
