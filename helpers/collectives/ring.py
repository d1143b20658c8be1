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

from helpers.collectives.parts import TAG, lengths, split

# Bytes in one message, at most: keeps the scratch buffer small and what has just arrived in the
# cache while it is added. Much smaller, the cost of starting each message tells (see `bench/`).
SEGMENT = 4 << 20


def pieces_of(work, n: int) -> int:
    """Return into how many pieces each of ``n`` parts is cut, so that none exceeds SEGMENT."""
    return max(1, -(-work.nbytes // (n * SEGMENT)))


def reduce_scatter(work, comm, combine, parts: list[slice]) -> None:
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
            theirs = scratch[: len(mine)]
            comm.Sendrecv(work[parts[give]], right, TAG + give, theirs, left, TAG + take)
            combine(mine, theirs)


def allgather(work, comm, parts: list[slice]) -> None:
    """Copy every rank's own parts of ``work`` to all ranks."""
    n, rank = comm.Get_size(), comm.Get_rank()
    right, left = (rank + 1) % n, (rank - 1) % n
    pieces = len(parts) // n
    for step in range(n - 1):
        for piece in range(pieces):
            give = (rank - step) % n * pieces + piece
            take = (rank - step - 1) % n * pieces + piece
            mine, theirs = work[parts[give]], work[parts[take]]
            comm.Sendrecv(mine, right, TAG + give, theirs, left, TAG + take)


def allreduce(work, comm, combine, pieces: int = 1) -> None:
    """Reduce-scatter, then allgather: 2(N−1) steps, 2(N−1)K/N bytes sent by every rank."""
    parts = split(len(work), comm.Get_size() * pieces)
    reduce_scatter(work, comm, combine, parts)
    allgather(work, comm, parts)
