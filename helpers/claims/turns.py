"""Two calls that take turns: what disturbs the machine meets both."""

from __future__ import annotations

import time
from collections.abc import Callable


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
