"""Recursive doubling: everybody exchanges everything, at distance 1, 2, 4, ...

After the exchange at distance d each rank holds the reduction of a block of 2d neighbours, so after
log₂ N steps everybody has the result: the fewest steps there are, at the price of K bytes in each.
When N is not a power of two, the first few ranks pair up: the odd one hands its array to the even
one before, sits out, and gets the result after (Thakur, Rabenseifner and Gropp 2005, section 4.5).

``work`` is a contiguous array, reduced in place. Blocks are combined in the order of ranks, so the
operation need not commute, and both partners compute the same bits.
"""

from __future__ import annotations

import numpy as np

from helpers.collectives.parts import FIRST_TAG, Combine, Communicator, split
from helpers.collectives.registry import (
    Allreduce,
    CriticalPath,
    register,
)
from helpers.collectives.tree import distances


def allreduce(work: np.ndarray, comm: Communicator, combine: Combine, pieces: int = 1) -> None:
    """Reduce ``work`` over all ranks: log₂ N steps, two more unless N is a power of two."""
    n, rank = comm.Get_size(), comm.Get_rank()
    paired = 2 * (n - (1 << n.bit_length() - 1))  # ranks 0..paired−1 act in pairs
    for c, piece in enumerate(split(len(work), pieces)):
        mine, tag = work[piece], FIRST_TAG + c
        theirs = np.empty_like(mine)
        if rank < paired and rank % 2 == 1:
            comm.Send(mine, rank - 1, tag)
            comm.Recv(mine, rank - 1, tag)
            continue
        if rank < paired:
            comm.Recv(theirs, rank + 1, tag)
            combine(mine, theirs, theirs_first=False)
        place = rank // 2 if rank < paired else rank - paired // 2  # among those who take part
        for distance in distances(n - paired // 2):
            partner = place ^ distance
            peer = 2 * partner if partner < paired // 2 else partner + paired // 2
            comm.Sendrecv(mine, peer, tag, theirs, peer, tag)
            combine(mine, theirs, theirs_first=peer < rank)
        if rank < paired:
            comm.Send(mine, rank + 1, tag)


def path(ranks: int, pieces: int = 1) -> CriticalPath:
    """Return what follows one another: ⌊log₂ N⌋ exchanges, piece after piece.

    Unless N is a power of two there is one step before them, and one after.
    """
    levels = ranks.bit_length() - 1
    fold = int(ranks & (ranks - 1) != 0)
    steps = levels + 2 * fold
    return CriticalPath(steps * pieces, float(steps), float(levels + fold))


def sent(ranks: int) -> float:
    """Return the bytes that the busiest rank sends, ÷ K.

    An array in each of ⌊log₂ N⌋ exchanges, and the result to a partner if N is no power of two.
    """
    return float(len(distances(ranks)))


register(Allreduce("recursive_doubling", "allreduce: recursive doubling", allreduce, path, sent))
