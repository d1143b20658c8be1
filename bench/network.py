"""Links between hosts in this machine, and paced ranks: each against what was asked for."""

from __future__ import annotations

import statistics
import time

from helpers.cluster import Cluster, Network
from helpers.records import Row

SUITE = "network"
RATES = {10e6: 1 << 20, 100e6: 4 << 20, 1e9: 16 << 20}  # bit/s → bytes of a message
PACE, PACED, STEPS = 20e-3, 8, 50  # seconds, ranks, steps
WORK = 0.1, 0.19  # of the pace


def rows() -> list[Row]:
    """Measure each on ranks of its own; the peer is what was asked for."""
    return [*_rates(), *map(_pace, WORK)]


def _rates() -> list[Row]:
    rows = []
    for rate, size in RATES.items():
        network = Network(2, rate=rate)
        with Cluster(2, network=network) as cluster:
            taken = cluster.run(_message, size, 5, timeout=120)[0]
        assert network.payload is not None
        rows.append(Row("long message between hosts", size / statistics.median(taken) / 1e6, "MB/s",
                        "the wire's limit", network.payload / 1e6,
                        {"rate": rate, "bytes": size}))  # fmt: skip
    return rows


def _pace(work: float) -> Row:
    """Take the slowest of the ranks, each computing for so much of its pace."""
    with Cluster(PACED) as cluster:
        taken = max(cluster.run(_paced, PACE, STEPS, work, timeout=60))
    return Row("a step of paced ranks", taken / STEPS * 1e3, "ms", "the pace", PACE * 1e3,
               {"ranks": PACED, "work": work})  # fmt: skip


def _world() -> tuple:
    from mpi4py import MPI

    return MPI.COMM_WORLD, MPI.COMM_WORLD.Get_rank()


def _message(size: int, repeats: int) -> list[float]:
    """Time a message from rank 0 to rank 1 until it is known to have arrived."""
    import numpy as np

    comm, rank = _world()
    box, word, taken = np.zeros(size, np.uint8), np.zeros(1, np.uint8), []
    for _ in range(repeats + 1):
        comm.Barrier()
        begin = time.perf_counter()
        if rank == 0:
            comm.Send(box, 1)
            comm.Recv(word, 1)
        else:
            comm.Recv(box, 0)
            comm.Send(word, 0)
        taken.append(time.perf_counter() - begin)
    return taken[1:]


def _paced(seconds: float, steps: int, work: float) -> float:
    from helpers.pace import pace
    from helpers.waiting import doze

    comm, _ = _world()
    doze(comm)
    begin = time.perf_counter()
    for _ in range(steps):
        with pace(seconds):
            end = time.thread_time() + work * seconds
            while time.thread_time() < end:
                pass
    taken = time.perf_counter() - begin
    doze(comm)
    return taken
