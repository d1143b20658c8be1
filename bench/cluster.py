"""How long ranks take to start, restart and stop, by us, by mpiexec and by ipyparallel."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from helpers.paths import ROOT
from helpers.records import Row

SUITE = "cluster"
N = 4
MANY = 32
REPEATS = 3


def rows() -> list[Row]:
    """Time what a reader waits for, beside mpiexec and plain ipyparallel; each in a new process."""
    case, plainly = {"ranks": N}, "ipyparallel.Cluster"
    cold, warm, plain = _in_turn([(_cold,), (_warm,), (_plain,)])
    forked, launched = _in_turn([(_life, "mpi"), (_life, "mpiexec")])
    many, many_launched = _in_turn([(_cold, MANY, "mpi"), (_cold, MANY, "mpiexec")], repeats=1)
    torch, torch_launched = _in_turn([(_torch, "mpi"), (_torch, "mpiexec")], repeats=1)
    first = "new kernel to first result"
    memory = "memory of all ranks with torch, shared pages once"
    return [
        Row(f"{first}, import included", cold["start"], "s", plainly, plain["start"], case),
        Row("the same, 2 s after %load_ext", warm["start"], "s", plainly, plain["start"], case),
        Row("stop", forked["stop"], "s", plainly, plain["stop"], case),
        Row(first, many["start"], "s", "mpiexec", many_launched["start"], {"ranks": MANY}),
        *(
            Row(f"{what}, to the next result", forked[what], "s", "mpiexec", launched[what], case)
            for what in ("restart", "after a deadlock", "after a kill", "after an interrupt")
        ),
        Row(memory, torch["memory"], "MB", "mpiexec", torch_launched["memory"], case),
        *_cells(case),
    ]


def _in_turn(calls: list[tuple], repeats: int = REPEATS) -> list[dict[str, float]]:
    """Make the calls in turn, each in new processes; return the medians of each."""
    taken = [[_of_new_process(*call) for call in calls] for _ in range(repeats)]
    return [
        {name: statistics.median(times[name] for times in of_call) for name in of_call[0]}
        for of_call in zip(*taken, strict=True)
    ]


def _of_new_process(function, *args: object) -> dict[str, float]:
    """Call one of this module's functions in a new process; return the dict that it returns."""
    code = (
        f"import time; begin = time.perf_counter(); from bench import cluster; import json; "
        f"print(json.dumps(cluster.{function.__name__}(begin, *{args!r})))"
    )
    programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "PATH": programs},  # plain ipyparallel looks for mpiexec there
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def _start(way: str) -> Any:
    from helpers.cluster import Mpiexec

    return Mpiexec() if way == "mpiexec" else None


def _cold(begin: float, n: int = N, way: str = "mpi") -> dict[str, float]:
    from helpers.cluster import Cluster

    cluster = Cluster(n, start=_start(way))
    cluster.run(_rank_size)
    started = time.perf_counter() - begin
    cluster.stop()
    return {"start": started}


def _warm(begin: float) -> dict[str, float]:
    from IPython.core.interactiveshell import InteractiveShell

    from helpers.cluster import load_ipython_extension

    load_ipython_extension(InteractiveShell.instance())
    time.sleep(2)
    return _cold(time.perf_counter())


def _plain(begin: float) -> dict[str, float]:
    import ipyparallel

    cluster = ipyparallel.Cluster(engines="mpi", n=N, log_level=logging.CRITICAL)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        client = cluster.start_and_connect_sync()
    client[:].apply_sync(_rank_size)
    started = time.perf_counter()
    cluster.stop_cluster_sync()
    client.close()
    return {"start": started - begin, "stop": time.perf_counter() - started}


def _life(begin: float, way: str) -> dict[str, float]:
    """Restart ranks for each reason there is; each time until the next result, and the stop."""
    from helpers.cluster import Cluster, ClusterError

    cluster = Cluster(N, start=_start(way))
    cluster.run(_rank_size)
    taken = {}
    begin = time.perf_counter()
    cluster.restart()
    cluster.run(_rank_size)
    taken["restart"] = time.perf_counter() - begin
    troubles = {"after a deadlock": _deadlock, "after a kill": _kill, "after an interrupt": _wait}
    for name, trouble in troubles.items():
        timer = threading.Timer(1.0, signal.raise_signal, [signal.SIGINT])
        if trouble is _wait:
            timer.start()
        with contextlib.suppress(ClusterError):
            cluster.run(trouble, timeout=2)
        begin = time.perf_counter()
        cluster.run(_rank_size)
        taken[name] = time.perf_counter() - begin
    begin = time.perf_counter()
    cluster.stop()
    return {**taken, "stop": time.perf_counter() - begin}


def _torch(begin: float, way: str) -> dict[str, float]:
    from helpers.cluster import Cluster

    with Cluster(N, start=_start(way), preload=("torch",)) as cluster:
        cluster.run(_import_torch, timeout=120)
        return {"memory": sum(cluster.run(_proportional))}


def _deadlock() -> None:
    from mpi4py import MPI

    MPI.COMM_WORLD.recv(source=(MPI.COMM_WORLD.Get_rank() + 1) % MPI.COMM_WORLD.Get_size())


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _wait() -> None:
    from mpi4py import MPI

    if MPI.COMM_WORLD.Get_rank():
        MPI.COMM_WORLD.Barrier()
    time.sleep(10)


def _import_torch() -> None:
    import torch  # noqa: F401


def _proportional() -> float:
    import psutil

    return psutil.Process().memory_full_info().pss / 1e6


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
    cell, call = (1e3 * statistics.median(taken) for taken in (cells, calls))
    return [
        Row("empty %%ranks cell", cell, "ms", "a call by ipyparallel", call, case),
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
