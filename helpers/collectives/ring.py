"""The ring: cut the array into N parts and let all of them travel at once.

Every rank sends to its right neighbour and receives from its left one, in every step. In the first
N−1 steps the parts are summed on their way round (reduce-scatter): part i sets out from rank i+1
and arrives, complete, at rank i. In the next N−1 steps the finished parts go round once more
(allgather). Each rank sends 2(N−1) parts of K/N bytes: less than 2K, however large N is
(Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms").

``work`` is a contiguous array, reduced in place. Part i adds up in the order i+1, ..., N−1, 0, ...,
i: the operation must commute. Each part is computed once and copied, so all ranks end with the same
bits.
"""

from __future__ import annotations

import numpy as np

from helpers.collectives.parts import FIRST_TAG, Combine, Communicator, lengths, split
from helpers.collectives.registry import (
    Allreduce,
    Collective,
    CriticalPath,
    added,
    from_everybody,
    from_owner,
    pieces_a_rank,
    register,
)

# Bytes in one message, at most: keeps the scratch buffer small and what has just arrived in the
# cache while it is added. Much smaller, the cost of starting each message tells (see `bench/`).
SEGMENT = 4 << 20


def pieces_of(size: int, ranks: int) -> int:
    """Return into how many pieces each rank's part is cut, so that none exceeds SEGMENT bytes."""
    return max(1, -(-size // (ranks * SEGMENT)))


def reduce_scatter(
    work: np.ndarray, comm: Communicator, combine: Combine, parts: list[slice]
) -> None:
    """Leave the reduction of this rank's parts of ``work`` in place; the rest is partial sums.

    ``len(parts)`` is a multiple of N: with m·N of them, rank r owns parts m·r to m·r + m − 1.
    """
    n, rank = comm.Get_size(), comm.Get_rank()
    right, left = (rank + 1) % n, (rank - 1) % n
    pieces = len(parts) // n
    scratch = np.empty_like(work[: max(lengths(parts))])
    for step in range(n - 1):
        for piece in range(pieces):
            give = (rank - step - 1) % n * pieces + piece
            take = (rank - step - 2) % n * pieces + piece
            mine = work[parts[take]]
            ours, theirs = work[parts[give]], scratch[: len(mine)]
            comm.Sendrecv(ours, right, FIRST_TAG + give, theirs, left, FIRST_TAG + take)
            combine(mine, theirs)


def allgather(work: np.ndarray, comm: Communicator, parts: list[slice]) -> None:
    """Copy every rank's own parts of ``work`` to all ranks."""
    n, rank = comm.Get_size(), comm.Get_rank()
    right, left = (rank + 1) % n, (rank - 1) % n
    pieces = len(parts) // n
    for step in range(n - 1):
        for piece in range(pieces):
            give = (rank - step) % n * pieces + piece
            take = (rank - step - 1) % n * pieces + piece
            mine, theirs = work[parts[give]], work[parts[take]]
            comm.Sendrecv(mine, right, FIRST_TAG + give, theirs, left, FIRST_TAG + take)


def allreduce(work: np.ndarray, comm: Communicator, combine: Combine, pieces: int = 1) -> None:
    """Reduce-scatter, then allgather: 2(N−1) steps, 2(N−1)K/N bytes sent by every rank."""
    parts = split(len(work), comm.Get_size() * pieces)
    reduce_scatter(work, comm, combine, parts)
    allgather(work, comm, parts)


def path(ranks: int, pieces: int = 1) -> CriticalPath:
    """Return what follows one another: 2(N−1) steps of K/N bytes, each in ``pieces`` messages."""
    steps = ranks - 1
    return CriticalPath(2 * steps * pieces, 2 * steps / ranks, steps / ranks)


def sent(ranks: int) -> float:
    """Return the bytes that every rank sends, ÷ K."""
    return 2 * (ranks - 1) / ranks


register(
    Collective(
        "allgather",
        "allgather (ring)",
        lambda comm, chunks, pieces: allgather(np.ones(chunks), comm, split(chunks, chunks)),
        pieces_a_rank,
        from_owner,
    ),
    Collective(
        "reduce_scatter",
        "reduce-scatter (ring)",
        lambda comm, chunks, pieces: reduce_scatter(
            np.ones(chunks), comm, added, split(chunks, chunks)
        ),
        pieces_a_rank,
        from_everybody,
    ),
    Allreduce(
        "ring",
        "allreduce: ring",
        allreduce,
        path,
        sent,
        chunks=pieces_a_rank,
        pieces=pieces_of,
    ),
)
