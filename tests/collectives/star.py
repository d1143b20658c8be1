"""An allreduce algorithm in one module, as a reader would add one: all send to rank 0 and back."""

import numpy as np

from helpers.collectives.parts import FIRST_TAG
from helpers.collectives.registry import Allreduce, CriticalPath, register


def allreduce(work, comm, combine, pieces=1):
    rank, others = comm.Get_rank(), range(1, comm.Get_size())
    if rank:
        comm.Send(work, 0, FIRST_TAG)
        comm.Recv(work, 0, FIRST_TAG)
        return
    theirs = np.empty_like(work)
    for other in others:
        comm.Recv(theirs, other, FIRST_TAG)
        combine(work, theirs, theirs_first=False)
    for other in others:
        comm.Send(work, other, FIRST_TAG)


def path(ranks, pieces=1):
    others = ranks - 1
    return CriticalPath(2 * others, 2.0 * others, float(others))


def sent(ranks):
    return float(ranks - 1)


STAR = register(
    Allreduce("star", "allreduce: <star>", allreduce, path, sent, chunks=lambda ranks, pieces: 1)
)
