"""Scatter and gather: one rank hands out the parts of an array, or collects them.

The root sends (receives) N−1 messages one after another: N−1 steps, of a part each. ``work`` and
``part`` are contiguous arrays; ``parts`` says which slice of ``work`` belongs to which rank.
"""

from __future__ import annotations

import numpy as np

from helpers.collectives.parts import FIRST_TAG, Communicator, split
from helpers.collectives.registry import (
    Collective,
    from_owner,
    from_rank_0,
    one_a_rank,
    register,
)


def scatter(
    work: np.ndarray, part: np.ndarray, comm: Communicator, root: int, parts: list[slice]
) -> None:
    """Copy ``work[parts[r]]`` of the root into ``part`` of rank r, for every r."""
    if comm.Get_rank() == root:
        for rank in range(comm.Get_size()):
            if rank == root:
                part[...] = work[parts[root]]
            else:
                comm.Send(work[parts[rank]], rank, FIRST_TAG + rank)
    else:
        comm.Recv(part, root, FIRST_TAG + comm.Get_rank())


def gather(
    part: np.ndarray, work: np.ndarray, comm: Communicator, root: int, parts: list[slice]
) -> None:
    """Copy ``part`` of rank r into ``work[parts[r]]`` of the root, for every r."""
    if comm.Get_rank() == root:
        for rank in range(comm.Get_size()):
            if rank == root:
                work[parts[root]] = part
            else:
                comm.Recv(work[parts[rank]], rank, FIRST_TAG + rank)
    else:
        comm.Send(part, root, FIRST_TAG + comm.Get_rank())


register(
    Collective(
        "scatter",
        "scatter",
        lambda comm, chunks, pieces: scatter(
            np.ones(chunks), np.ones(1), comm, 0, split(chunks, chunks)
        ),
        one_a_rank,
        from_rank_0,
    ),
    Collective(
        "gather",
        "gather",
        lambda comm, chunks, pieces: gather(
            np.ones(1), np.ones(chunks), comm, 0, split(chunks, chunks)
        ),
        one_a_rank,
        from_owner,
    ),
)
