"""Collectives that wait or send otherwise: the sum is the same, and who waits leaves the core."""

import pytest

from tests.mpi.runner import run_ranks


def sums() -> None:
    import time

    import numpy as np
    from mpi4py import MPI

    from helpers.collectives import ALGORITHMS, variants

    comm = MPI.COMM_WORLD
    hosts = tuple(rank % 2 for rank in range(comm.size))
    sleeping = {name: variants.asleep(name, hosts) for name in ALGORITHMS}
    sending = {"at once": variants.tree_at_once, "in turn": variants.tree_in_turn}
    for name, function in {**sleeping, **sending}.items():
        for length in (1, 5, 30_000):
            work = np.arange(length, dtype=np.float32) + comm.rank
            function(work, comm)
            total = comm.size * np.arange(length) + comm.size * (comm.size - 1) / 2
            assert (work == total.astype(np.float32)).all(), name
    for name, function in sleeping.items():
        comm.Barrier()
        if comm.rank == 0:
            time.sleep(0.5)
        began, burnt = time.perf_counter(), time.process_time()
        function(np.ones(1 << 18, np.float32), comm)
        waited, burnt = time.perf_counter() - began, time.process_time() - burnt
        assert waited < 0.4 or burnt < 0.6 * waited, (name, waited, burnt)


@pytest.mark.mpi
@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_sum_is_the_same_and_waiting_leaves_the_core(n):
    run_ranks(n, sums)
