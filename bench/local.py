"""Local SGD where time is the point: links, workers, threads; paced ranks on hosts of this machine.

Every rank computes for 10 ms in a step (its real arithmetic, then sleep), whatever the machine.
"""

from __future__ import annotations

import functools
import statistics
import time

from helpers.cluster import Cluster, Network
from helpers.data_parallel import curve_runs, local_runs, runs
from helpers.data_parallel.schemes import LocalSGD
from helpers.machine import usable_cores
from helpers.records import Row

SUITE = "local"
RATES = 10e6, 100e6, 1e9  # bit/s
PERIODS = 1, 2, 4, 8, 16
PARAMETERS, RANKS, PACE = 25_450, 4, 10e-3
TARGET, MOST = 0.5, 400  # test loss; steps


def rows() -> list[Row]:
    """Measure each; the peer is what was predicted."""
    return [*_links(), *_workers(), *_frequencies(), *_threads()]


def _links() -> list[Row]:
    """Time the digits, sorted by class, to a loss: for each H at each link."""
    needed, found = {}, []
    with Cluster(RANKS, preload=("torch",)) as cluster:
        for period in PERIODS:
            runs = cluster.run(local_runs.digits, functools.partial(LocalSGD, period=period),
                               steps=MOST, sorted_share=1.0, follow=8, timeout=120)  # fmt: skip
            needed[period] = local_runs.steps_to(runs, TARGET)
    for rate in RATES:
        network = Network(RANKS, rate=rate)
        assert network.payload is not None
        average = local_runs.link_time(PARAMETERS, RANKS, network.payload)
        with Cluster(RANKS, network=network, preload=("torch",)) as cluster:
            seen = max(cluster.run(_average_time, PARAMETERS, timeout=60))
            found.append(Row("one average", seen * 1e3, "ms", "predicted", average * 1e3,
                             {"rate": rate, "parameters": PARAMETERS}))  # fmt: skip
            for period, steps in needed.items():
                if steps is None:
                    continue
                scheme = functools.partial(LocalSGD, period=period)
                run = cluster.run(local_runs.digits, scheme, steps=steps, sorted_share=1.0,
                                  pace=PACE, timeout=120)[0]  # fmt: skip
                given = {"rate": rate, "H": period, "steps": steps}
                found.append(Row("seconds to a loss", run.history.seconds[-1], "s", "predicted",
                                 steps * (PACE + average / period), given))  # fmt: skip
    return found


def _workers() -> list[Row]:
    """Share the same work among 1, 2, 4 and 8 workers at 1 Gbit/s."""
    network, found, alone = Network(8, rate=1e9), [], 0.0
    assert network.payload is not None
    with Cluster(8, network=network, preload=("torch",)) as cluster:
        for ranks in (1, 2, 4, 8):
            taken = cluster.run(curve_runs.speed, ranks, pace=PACE, timeout=60)[0]
            alone = alone or taken
            sync = local_runs.link_time(16_401, ranks, network.payload)
            given = {"ranks": ranks, "seconds": taken}
            found.append(Row("speed-up of workers", alone / taken, "×", "predicted",
                             ranks * PACE / (PACE + sync), given))  # fmt: skip
    return found


def _frequencies() -> list[Row]:
    """Time a step of the source's experiment, gradients averaged every k steps, at 100 Mbit/s."""
    network, found = Network(RANKS, rate=100e6), []
    assert network.payload is not None
    sync = local_runs.link_time(16_401, RANKS, network.payload)
    with Cluster(RANKS, network=network, preload=("torch",)) as cluster:
        for every in (1, 2, 4, 10, 0):
            taken = cluster.run(curve_runs.speed, RANKS, 160, PACE, every, timeout=60)[0]
            predicted = PACE + (sync / every if every else 0.0)
            found.append(Row("a step, gradients now and then", taken / 40 * 1e3, "ms", "predicted",
                             predicted * 1e3, {"every": every}))  # fmt: skip
    return found


def _threads() -> list[Row]:
    """Share the same work among processes; the peer is one thread in each."""
    found = []
    for processes in (1, 2, 4, 8):
        with Cluster(processes, preload=("torch",)) as cluster:
            single = _best(cluster, 1, False)
            for threads, core in ((usable_cores(), False), (8, False), (1, True)):
                given = {"processes": processes, "threads": threads, "bound": core}
                taken = _best(cluster, threads, core)
                found.append(Row("the same work by processes", taken, "s", "one thread each",
                                 single, given))  # fmt: skip
    return found


def _best(cluster: Cluster, threads: int, core: bool) -> float:
    """Return the least of three."""
    call = functools.partial(curve_runs.crowd, threads, 80, core=core)
    return min(cluster.run(call, timeout=60)[0] for _ in range(3))


def _average_time(parameters: int, repeats: int = 5) -> float:
    """Return the median time, of the slowest rank, of one average of all parameters by the ring."""
    import torch
    from mpi4py import MPI

    from helpers.data_parallel.schemes.local import ring_average

    comm, values, taken = runs.ranks(), torch.ones(parameters), []
    for _ in range(repeats + 1):
        comm.Barrier()
        begin = time.perf_counter()
        ring_average(values, comm)
        taken.append(time.perf_counter() - begin)
    return comm.allreduce(statistics.median(taken[1:]), MPI.MAX)
