"""Waiting without keeping a core busy."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


def doze(comm: Intracomm, interval: float = 1e-3) -> None:
    """Wait until every rank of ``comm`` has called this, asleep instead of spinning.

    ``comm.Barrier()`` asks for messages as fast as it can, which takes a core from the ranks that
    still compute.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        Whose ranks meet.
    interval : float
        The pause between two looks, in seconds.
    """
    done = comm.Ibarrier()
    while not done.Test():
        time.sleep(interval)
