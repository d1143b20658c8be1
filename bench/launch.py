"""What suites share: their module on several ranks, calls that take turns, a GPU's time."""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from helpers.machine.mpi import run_ranks
from helpers.paths import ROOT

BATCH, BATCHES, WARMUP = 10, 15, 3  # of calls on a GPU


def on_ranks(ranks: int, function: Callable, *arguments: object, timeout: float) -> Any:
    """Call a suite's function on ``ranks`` ranks of one thread; return what it does on rank 0.

    Arguments are written as Python, the result is JSON. Raises RuntimeError with the ranks' output
    if they fail or have not ended after ``timeout`` seconds.
    """
    code = (
        f"import json; from mpi4py import MPI; from {function.__module__} import "
        f"{function.__name__} as call; found = call(*{arguments!r}); "
        "MPI.COMM_WORLD.rank or print(json.dumps(found))"
    )
    paths, command = {"PYTHONPATH": str(ROOT)}, [sys.executable, "-c", code]
    done = run_ranks(ranks, command, timeout=timeout, cwd=ROOT, env=paths, apart=True)
    if done.code != 0:
        how = "failed" if done.code else f"did not end within {timeout:g} s"
        name = f"{function.__module__}.{function.__name__}"
        raise RuntimeError(f"{name} on {ranks} ranks {how}:\n{done.output}{done.errors}")
    return json.loads(done.output.splitlines()[-1])


def in_turns(
    calls: Mapping[str, Callable[[], object]],
    rounds: int,
    repeats: int = 1,
    *,
    comm=None,
    clock: Callable[[], float] = time.perf_counter,
    budget: float = float("inf"),
) -> dict[str, list[float]]:
    """Return the seconds of each call in every round, in which all take a turn; the first warms up.

    With a communicator, the seconds of the slowest rank. After ``budget`` seconds no further round
    begins.
    """
    samples: dict[str, list[float]] = {name: [] for name in calls}
    begun = time.perf_counter()
    for turn in range(rounds + 1):
        if turn > 1 and time.perf_counter() - begun > budget:
            break
        for name, call in calls.items():
            if comm is not None:
                comm.Barrier()
            began = clock()
            for _ in range(repeats):
                call()
            took = (clock() - began) / repeats
            if comm is not None:
                took = max(comm.allgather(took))
            if turn:
                samples[name].append(took)
    return samples


def best(samples: Mapping[str, list[float]]) -> dict[str, float]:
    """Return the shortest of each: whatever else runs on the cores only ever adds time."""
    return {name: min(taken) for name, taken in samples.items()}


def gpu_time(run: Callable[..., object], given: Sequence[tuple]) -> float:
    """Return the median time of one call, in µs, from events around batches of calls.

    The device first sleeps while the CPU puts every call into its queue: otherwise a kernel of
    30 µs would be timed by how fast Python launches it.
    """
    import torch

    turn = itertools.cycle(given)
    for _ in range(WARMUP):
        run(*next(turn))
    torch.cuda.synchronize()
    samples = []
    for _ in range(BATCHES):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(20_000_000)  # clock cycles: about 10 ms
        begin.record()
        for _ in range(BATCH):
            run(*next(turn))
        end.record()
        end.synchronize()
        samples.append(1e3 * begin.elapsed_time(end) / BATCH)
    return statistics.median(samples)
