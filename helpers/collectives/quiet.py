"""Whether the ranks have the machine to themselves: times on a busy one are not to be believed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from helpers.collectives.measure import world
from helpers.machine import usable_cores

if TYPE_CHECKING:
    from mpi4py import MPI


def share(seconds: float = 0.1, comm: MPI.Intracomm | None = None) -> float:
    """On every rank: compute for a while, all at once, and compare with what the cores could give.

    Parameters
    ----------
    seconds : float
        For how long.
    comm : mpi4py.MPI.Intracomm, optional
        Who takes part; None: all ranks.

    Returns
    -------
    float
        The part of the cores that the ranks got, the same on every rank. 1: all that so many ranks
        can use; 0.5: other programs had half of it.
    """
    comm = world(comm)
    comm.Barrier()
    began, had = time.perf_counter(), time.process_time()
    while time.perf_counter() - began < seconds:
        sum(range(1000))
    part = (time.process_time() - had) / (time.perf_counter() - began)
    return min(1.0, sum(comm.allgather(part)) / min(comm.Get_size(), usable_cores()))
