"""The cluster beside plain ipyparallel: start, stop, an empty cell, memory."""

from __future__ import annotations

import contextlib
import io
import logging
import statistics
import time

from helpers.records import Row

SUITE = "cluster"
N = 4
REPEATS = 3


def rows() -> list[Row]:
    """Start both in turn; time an empty cell on ours beside the plain call on the same engines."""
    ours = [_start_ours() for _ in range(REPEATS)]
    plain = [_start_plain() for _ in range(REPEATS)]
    case = {"ranks": N}
    start, stop = (statistics.median(times) for times in zip(*ours, strict=True))
    plain_start, plain_stop = (statistics.median(times) for times in zip(*plain, strict=True))
    return [
        Row("start to first result", start, "s", "ipyparallel.Cluster", plain_start, case),
        Row("stop", stop, "s", "ipyparallel.Cluster", plain_stop, case),
        *_cells(case),
    ]


def _start_ours() -> tuple[float, float]:
    from helpers.cluster import Cluster

    begin = time.perf_counter()
    cluster = Cluster(N)
    cluster.run(_rank_size)
    started = time.perf_counter()
    cluster.stop()
    return started - begin, time.perf_counter() - started


def _start_plain() -> tuple[float, float]:
    import ipyparallel

    begin = time.perf_counter()
    cluster = ipyparallel.Cluster(engines="mpi", n=N, log_level=logging.CRITICAL)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        client = cluster.start_and_connect_sync()
    client[:].apply_sync(_rank_size)
    started = time.perf_counter()
    cluster.stop_cluster_sync()
    client.close()
    return started - begin, time.perf_counter() - started


def _cells(case: dict) -> list[Row]:
    """Time an empty %%ranks cell and the plain broadcast call in turn, on the same engines."""
    from IPython.core.interactiveshell import InteractiveShell

    from helpers.cluster import Cluster, load_ipython_extension

    shell = InteractiveShell.instance()
    load_ipython_extension(shell)
    with Cluster(N) as cluster:
        view = cluster.client[:]
        cells, calls = [], []
        for _ in range(60):
            begin = time.perf_counter()
            shell.run_cell_magic("ranks", "", "pass")
            middle = time.perf_counter()
            view.apply_sync(_rank_size)
            cells.append(middle - begin)
            calls.append(time.perf_counter() - middle)
        memory = cluster.run(_resident)
    return [
        Row(
            "empty %%ranks cell",
            statistics.median(cells) * 1e3,
            "ms",
            "apply_sync to all engines",
            statistics.median(calls) * 1e3,
            case,
        ),
        Row("resident memory of all ranks, NumPy and mpi4py imported", sum(memory), "MB", "", None,
            case),
    ]  # fmt: skip


def _rank_size() -> tuple[int, int]:
    from mpi4py import MPI

    return MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()


def _resident() -> float:
    import numpy  # noqa: F401 (its memory is what is measured)
    import psutil

    return psutil.Process().memory_info().rss / 1e6
