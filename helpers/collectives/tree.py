"""A binomial tree: pairs, then pairs of pairs, so that log₂ N steps reach every rank.

At distance d = 1, 2, 4, ... the ranks whose number has bit d set send their sum to the rank d below
and are done; the broadcast is the same film backwards. Each sum covers neighbouring ranks in
order, so the operation need not commute (Thakur, Rabenseifner and Gropp 2005, section 4).

``work`` is a contiguous array, reduced or filled in place.
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


def distances(n: int) -> list[int]:
    """Return the powers of two below ``n``: how far messages go, step after step.

    >>> distances(5)
    [1, 2, 4]
    """
    return [1 << level for level in range((n - 1).bit_length())]


def reduce(
    work: np.ndarray, comm: Communicator, combine: Combine, root: int, pieces: int = 1
) -> None:
    """Leave the reduction of all ranks' ``work`` on ``root`` in ⌈log₂ N⌉ steps."""
    n = comm.Get_size()
    place = (comm.Get_rank() - root) % n  # 0: the root of the tree
    sending = []
    for c, piece in enumerate(split(len(work), pieces)):
        for distance in distances(n):
            if place & distance:
                parent = (root + place - distance) % n
                sending.append(comm.Isend(work[piece], parent, FIRST_TAG + c))
                break
            if place + distance < n:
                theirs = np.empty_like(work[piece])
                comm.Recv(theirs, (root + place + distance) % n, FIRST_TAG + c)
                combine(work[piece], theirs, theirs_first=False)
    for request in sending:
        request.Wait()


def broadcast(work: np.ndarray, comm: Communicator, root: int, pieces: int = 1) -> None:
    """Copy ``work`` from ``root`` to all ranks in ⌈log₂ N⌉ steps, farthest first."""
    n = comm.Get_size()
    place = (comm.Get_rank() - root) % n
    sending = []
    for c, piece in enumerate(split(len(work), pieces)):
        for distance in reversed(distances(n)):
            if place % (2 * distance) == distance:
                comm.Recv(work[piece], (root + place - distance) % n, FIRST_TAG + c)
            elif place % (2 * distance) == 0 and place + distance < n:
                child = (root + place + distance) % n
                sending.append(comm.Isend(work[piece], child, FIRST_TAG + c))
    for request in sending:
        request.Wait()


def allreduce(work: np.ndarray, comm: Communicator, combine: Combine, pieces: int = 1) -> None:
    """Reduce to rank 0, then broadcast from it: 2⌈log₂ N⌉ steps, up to ⌈log₂ N⌉K bytes a rank."""
    reduce(work, comm, combine, 0, pieces)
    broadcast(work, comm, 0, pieces)


def path(ranks: int, pieces: int = 1) -> CriticalPath:
    """Return what follows one another: ⌈log₂ N⌉ steps there and as many back, piece after piece.

    Only the way there adds.
    """
    levels = len(distances(ranks))
    return CriticalPath(2 * levels * pieces, 2.0 * levels, float(levels))


def sent(ranks: int) -> float:
    """Return the bytes that the busiest rank sends, ÷ K: rank 0's, while it broadcasts."""
    return float(len(distances(ranks)))


register(
    Collective(
        "broadcast",
        "broadcast (tree)",
        lambda comm, chunks, pieces: broadcast(np.ones(chunks), comm, 0, pieces),
        one_a_piece,
        from_rank_0,
    ),
    Collective(
        "reduce",
        "reduce (tree)",
        lambda comm, chunks, pieces: reduce(np.ones(chunks), comm, added, 0, pieces),
        one_a_piece,
        from_everybody,
    ),
    Allreduce("tree", "allreduce: tree", allreduce, path, sent),
)
