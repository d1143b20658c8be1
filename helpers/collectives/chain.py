"""The naive way: hand the sum from rank to rank, then hand the result back.

Rank i receives the sum of ranks 0..i−1, adds its own array and sends the sum on to rank i+1: after
N−1 steps rank N−1 holds the total, which then travels the same way back. Cut into several pieces,
the pieces follow one another along the chain like wagons: rank i forwards one while the next
arrives.

``work`` is a contiguous array, reduced or filled in place. Ranks keep their order, so the
operation need not commute.
"""

from __future__ import annotations

import numpy as np

from helpers.collectives.parts import FIRST_TAG, Combine, Communicator, split
from helpers.collectives.registry import (
    Allreduce,
    Collective,
    CriticalPath,
    added,
    from_everybody,
    from_rank_0,
    one_a_piece,
    register,
)


def reduce(
    work: np.ndarray, comm: Communicator, combine: Combine, root: int, pieces: int = 1
) -> None:
    """Leave the reduction of all ranks' ``work`` on ``root``, the end of the chain.

    The chain runs root+1, root+2, ..., root (modulo N). The others keep partial sums.
    """
    n = comm.Get_size()
    place = (comm.Get_rank() - root - 1) % n  # 0: first of the chain, n−1: root
    before, after = (root + place) % n, (root + 2 + place) % n
    sending = []
    for c, piece in enumerate(split(len(work), pieces)):
        if place > 0:
            theirs = np.empty_like(work[piece])
            comm.Recv(theirs, before, FIRST_TAG + c)
            combine(work[piece], theirs, theirs_first=True)
        if place < n - 1:
            sending.append(comm.Isend(work[piece], after, FIRST_TAG + c))
    for request in sending:
        request.Wait()


def broadcast(work: np.ndarray, comm: Communicator, root: int, pieces: int = 1) -> None:
    """Copy ``work`` from ``root`` to all ranks along root, root−1, ..., root+1 (modulo N)."""
    n = comm.Get_size()
    place = (root - comm.Get_rank()) % n  # 0: root, n−1: last of the chain
    before, after = (root - place + 1) % n, (root - place - 1) % n
    sending = []
    for c, piece in enumerate(split(len(work), pieces)):
        if place > 0:
            comm.Recv(work[piece], before, FIRST_TAG + c)
        if place < n - 1:
            sending.append(comm.Isend(work[piece], after, FIRST_TAG + c))
    for request in sending:
        request.Wait()


def allreduce(work: np.ndarray, comm: Communicator, combine: Combine, pieces: int = 1) -> None:
    """Reduce to the last rank, then broadcast from there: 2(N−1) steps, up to 2K bytes a rank."""
    last = comm.Get_size() - 1
    reduce(work, comm, combine, last, pieces)
    broadcast(work, comm, last, pieces)


def path(ranks: int, pieces: int = 1) -> CriticalPath:
    """Return what follows one another: N−1 steps for the first piece, one more for each other."""
    steps = ranks - 2 + pieces
    return CriticalPath(2 * steps, 2 * steps / pieces, steps / pieces)


def sent(ranks: int) -> float:
    """Return the bytes that the busiest rank sends, ÷ K: one array each way between the ends."""
    return 2.0 if ranks > 2 else 1.0


register(
    Collective(
        "broadcast_chain",
        "broadcast (chain)",
        lambda comm, chunks, pieces: broadcast(np.ones(chunks), comm, 0, pieces),
        one_a_piece,
        from_rank_0,
    ),
    Collective(
        "reduce_chain",
        "reduce (chain)",
        lambda comm, chunks, pieces: reduce(np.ones(chunks), comm, added, 0, pieces),
        one_a_piece,
        from_everybody,
    ),
    Allreduce("chain", "allreduce: chain", allreduce, path, sent),
)
