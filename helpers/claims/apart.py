"""An experiment in a process of its own, as a reader's kernel that has done nothing else."""

from __future__ import annotations

import functools
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any


def apart(experiment: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``experiment``, each run of which starts a new process.

    Times depend on where a process's memory happens to lie and on what it did before: runs that
    share a process share that accident, so that their interval is too narrow.

    >>> apart(pow)(2, exp=5)
    32

    Parameters
    ----------
    experiment : callable
        A function of a module, or ``functools.partial`` of one: it is sent by pickling.

    Returns
    -------
    callable
        Takes and returns the same. What the experiment raises is raised.
    """

    @functools.wraps(getattr(experiment, "func", experiment))
    def run(*arguments: Any, **keywords: Any) -> Any:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            return pool.submit(experiment, *arguments, **keywords).result()

    return run
