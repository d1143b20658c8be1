"""A binomial tree: pairs, then pairs of pairs, so that log₂ N steps reach every rank.

At distance d = 1, 2, 4, ... the ranks whose number has bit d set send their sum to the rank d below
and are done; the broadcast is the same film backwards. Each sum covers neighbouring ranks in
order, so the operation need not commute (Thakur, Rabenseifner and Gropp 2005, section 4).

``work`` is a contiguous array, reduced or filled in place.
"""

from __future__ import annotations

import numpy as np

from helpers.collectives.parts import TAG, split


def distances(n: int) -> list[int]:
    """Return the powers of two below ``n``: how far messages go, step after step.

    >>> distances(5)
    [1, 2, 4]
    """
    return [1 << level for level in range((n - 1).bit_length())]


def reduce(work, comm, combine, root: int, pieces: int = 1) -> None:
    """Leave the reduction of all ranks' ``work`` on ``root`` in ⌈log₂ N⌉ steps."""
    n = comm.Get_size()
    place = (comm.Get_rank() - root) % n  # 0: the root of the tree
    sending = []
    for c, piece in enumerate(split(len(work), pieces)):
        for distance in distances(n):
            if place & distance:
                parent = (root + place - distance) % n
                sending.append(comm.Isend(work[piece], parent, TAG + c))
                break
            if place + distance < n:
                theirs = np.empty_like(work[piece])
                comm.Recv(theirs, (root + place + distance) % n, TAG + c)
                combine(work[piece], theirs, theirs_first=False)
    for request in sending:
        request.Wait()


def broadcast(work, comm, root: int, pieces: int = 1) -> None:
    """Copy ``work`` from ``root`` to all ranks in ⌈log₂ N⌉ steps, farthest first."""
    n = comm.Get_size()
    place = (comm.Get_rank() - root) % n
    sending = []
    for c, piece in enumerate(split(len(work), pieces)):
        for distance in reversed(distances(n)):
            if place % (2 * distance) == distance:
                comm.Recv(work[piece], (root + place - distance) % n, TAG + c)
            elif place % (2 * distance) == 0 and place + distance < n:
                child = (root + place + distance) % n
                sending.append(comm.Isend(work[piece], child, TAG + c))
    for request in sending:
        request.Wait()


def allreduce(work, comm, combine, pieces: int = 1) -> None:
    """Reduce to rank 0, then broadcast from it: 2⌈log₂ N⌉ steps, up to ⌈log₂ N⌉K bytes a rank."""
    reduce(work, comm, combine, 0, pieces)
    broadcast(work, comm, 0, pieces)
