"""Scatter and gather: one rank hands out the parts of an array, or collects them.

The root sends (receives) N−1 messages one after another: N−1 steps, of a part each. ``work`` and
``part`` are contiguous arrays; ``parts`` says which slice of ``work`` belongs to which rank.
"""

from __future__ import annotations

from helpers.collectives.parts import TAG


def scatter(work, part, comm, root: int, parts: list[slice]) -> None:
    """Copy ``work[parts[r]]`` of the root into ``part`` of rank r, for every r."""
    if comm.Get_rank() == root:
        for rank in range(comm.Get_size()):
            if rank == root:
                part[...] = work[parts[root]]
            else:
                comm.Send(work[parts[rank]], rank, TAG + rank)
    else:
        comm.Recv(part, root, TAG + comm.Get_rank())


def gather(part, work, comm, root: int, parts: list[slice]) -> None:
    """Copy ``part`` of rank r into ``work[parts[r]]`` of the root, for every r."""
    if comm.Get_rank() == root:
        for rank in range(comm.Get_size()):
            if rank == root:
                work[parts[root]] = part
            else:
                comm.Recv(work[parts[rank]], rank, TAG + rank)
    else:
        comm.Send(part, root, TAG + comm.Get_rank())
