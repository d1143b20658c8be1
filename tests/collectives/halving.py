"""Recursive halving and doubling (Rabenseifner): a message carries half of what the last one did.

For a power of two ranks; consecutive parts travel joined, under the tag of the first of them.
"""

import numpy as np

from helpers.collectives.parts import FIRST_TAG, split
from helpers.collectives.registry import Allreduce, CriticalPath, pieces_a_rank, register


def allreduce(work, comm, combine, pieces=1):
    rank, parts = comm.Get_rank(), split(len(work), comm.Get_size() * pieces)
    low, high, distance, halves = 0, len(parts), comm.Get_size() // 2, []
    while distance:
        middle, partner = (low + high) // 2, rank ^ distance
        mine, theirs = (low, middle), (middle, high)
        if rank & distance:
            mine, theirs = theirs, mine
        halves.append((partner, mine, theirs))
        low, high = mine
        distance //= 2

    def exchange(partner, give, take, into):
        span = work[parts[give[0]].start : parts[give[1] - 1].stop]
        comm.Sendrecv(span, partner, FIRST_TAG + give[0], into, partner, FIRST_TAG + take[0])

    for partner, mine, theirs in halves:
        kept = work[parts[mine[0]].start : parts[mine[1] - 1].stop]
        arriving = np.empty_like(kept)
        exchange(partner, theirs, mine, arriving)
        combine(kept, arriving)
    for partner, mine, theirs in reversed(halves):
        exchange(partner, mine, theirs, work[parts[theirs[0]].start : parts[theirs[1] - 1].stop])


def path(ranks, pieces=1):
    return CriticalPath(2 * (ranks.bit_length() - 1), 2 * (ranks - 1) / ranks, (ranks - 1) / ranks)


def sent(ranks):
    return 2 * (ranks - 1) / ranks


register(
    Allreduce(
        *("halving", "allreduce: halving and doubling", allreduce, path, sent),
        chunks=pieces_a_rank,
    )
)
