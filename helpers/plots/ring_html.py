"""A ball that real processes pass round: the first picture of the course."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from helpers.machine import usable_cores
from helpers.plots.style import EIGHT
from helpers.plots.web.page import embed

if TYPE_CHECKING:
    from IPython.display import HTML


def pass_round(laps: int) -> tuple[int, list[float]]:
    """Take the ball from the rank before, give it to the next; call it on every rank.

    Return the process's number, and when it got the ball (s, of a clock that all of them read).
    Rank 0 gets it once more, at the end. ValueError for less than one lap.
    """
    from mpi4py import MPI

    if laps < 1:
        raise ValueError(f"pass_round expects at least one lap; got {laps}")
    comm = MPI.COMM_WORLD
    rank, size = comm.Get_rank(), comm.Get_size()
    got = [time.perf_counter()] if rank == 0 else []
    for _ in range(laps):
        if rank == 0:
            comm.send("ball", (rank + 1) % size)
        comm.recv(source=(rank - 1) % size)
        got.append(time.perf_counter())
        if rank > 0:
            comm.send("ball", (rank + 1) % size)
    return os.getpid(), got


def ring(answers: Sequence[tuple[int, Sequence[float]]]) -> HTML:
    """Return a picture that plays: the ball goes round as it did.

    ``answers`` are what :func:`pass_round` returned on each of 2 to 8 ranks.
    """
    if not 2 <= len(answers) <= 8:
        raise ValueError(f"ring expects the answers of 2 to 8 ranks; got {len(answers)}")
    start = answers[0][1][0]
    data = {
        "processes": [process for process, _ in answers],
        "stops": sorted(
            (when - start, rank) for rank, (_, got) in enumerate(answers) for when in got
        ),
        "cores": usable_cores(),
        "colours": list(EIGHT),
    }
    return embed("ring", data)
