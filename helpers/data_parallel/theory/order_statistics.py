"""How long the N-th of W workers takes: what backup workers buy, predicted.

If every gradient takes t₀ + X with X exponential of mean m, the N-th of W independent ones comes
after t₀ + m·(H_W − H_{W−N}) on the average, H_n = 1 + 1/2 + … + 1/n. Where the times of a real
machine are at hand, no law is needed: they are sorted.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


def harmonic(n: int) -> float:
    """Return 1 + 1/2 + … + 1/n, which is 0 for n = 0."""
    return sum(1 / k for k in range(1, n + 1))


def expected(needed: int, workers: int, least: float, mean: float) -> float:
    """Return the mean seconds until N = ``needed`` of W ``workers`` gradients are there.

    ``least`` is t₀ and ``mean`` m, in seconds. ValueError unless 1 <= N <= W.

    >>> expected(1, 1, 0.0, 2.0), expected(2, 2, 1.0, 2.0)
    (2.0, 4.0)
    """
    if not 1 <= needed <= workers:
        raise ValueError(f"expected 1 <= needed <= workers; got {needed} and {workers}")
    return least + mean * (harmonic(workers) - harmonic(workers - needed))


def drawn(least: float, mean: float, seed: int, rank: int) -> Callable[[int], float]:
    """Make a rank's stragglers: a function of the step that returns the seconds of its gradient."""
    return lambda step: (
        least + mean * float(np.random.default_rng([seed, rank, step]).exponential())
    )


def of_sample(times: np.ndarray, needed: int) -> float:
    """Return the mean seconds until ``needed`` gradients are there, from times that were measured.

    >>> of_sample([[1.0, 9.0], [5.0, 3.0]], needed=1)
    2.0

    Parameters
    ----------
    times : (steps, W) array_like
        Seconds of each worker's gradient in each step. A row belongs together: what slows several
        workers at once, or one of them for several steps, stays as it was.
    needed
        1 <= N <= W, else ValueError.
    """
    times = np.asarray(times, float)
    if times.ndim != 2 or not times.size:
        raise ValueError(f"expected times (steps, workers), one or more; got {times.shape}")
    if not 1 <= needed <= times.shape[1]:
        raise ValueError(
            f"expected 1 <= needed <= workers; got {needed} and {times.shape[1]} workers"
        )
    return float(np.sort(times, axis=1)[:, needed - 1].mean())
