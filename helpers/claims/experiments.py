"""What experiments are made of: calls in turns, processes of their own."""

from __future__ import annotations

import functools
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

PROGRAM = "from helpers.claims.experiments import main; main()"


def in_turn(
    ours: Callable[[], object],
    rival: Callable[[], object],
    rounds: int = 5,
    threads: int | None = 1,
) -> tuple[float, float]:
    """Return the best seconds of two calls that take turns, after a round that does not count.

    One thread is timed by its own processor time, so that other work on the machine does not count;
    several (``threads=None``: as many as each call takes) by the clock on the wall.
    """
    from threadpoolctl import threadpool_limits

    clock = time.thread_time if threads == 1 else time.perf_counter
    best = [float("inf")] * 2
    with threadpool_limits(threads):
        for turn in range(rounds + 1):
            for side, call in enumerate((ours, rival)):
                began = clock()
                call()
                if turn:
                    best[side] = min(best[side], clock() - began)
    return best[0], best[1]


def apart(experiment: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``experiment``, each run of which starts a new process; it is sent by pickling.

    Times depend on where a process's memory happens to lie and on what it did before: runs that
    share a process share that accident, so that their interval is too narrow. What the experiment
    raises is raised; ``RuntimeError`` if its process ends without an answer.

    >>> apart(pow)(2, exp=5)
    32
    """

    @functools.wraps(getattr(experiment, "func", experiment))
    def run(*arguments: Any, **keywords: Any) -> Any:
        # Not by multiprocessing, whose tracker of resources outlives what it was started for.
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            input=pickle.dumps((experiment, arguments, keywords)),
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"an experiment's process ended with exit status {done.returncode}")
        returned, raised = pickle.loads(done.stdout)
        if raised is not None:
            raise raised
        return returned

    return run


def main() -> None:
    """Be that process: a pickled call on stdin, what came of it on stdout."""
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the experiment prints is no answer
    experiment, arguments, keywords = pickle.load(sys.stdin.buffer)
    try:
        found: tuple = experiment(*arguments, **keywords), None
    except Exception as error:
        found = None, error
    with answer:
        answer.write(pickle.dumps(found))
