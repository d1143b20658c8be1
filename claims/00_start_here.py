"""What notebook 00 concludes: ranks share the cores, and take turns where there are too few.

No claim is about seconds: what a rank takes depends on what else the machine does.
"""

from __future__ import annotations

import functools

from helpers.claims import Claim, Share

STEPS = 4_000_000  # additions of a process: about a fifth of a second
RUNS = range(8)
RANKS = {f"{n} ranks": {"ranks": n} for n in (2, 3, 4)}


def work(steps: int) -> list[tuple[float, float]]:
    """Add numbers; return the stretches [begin, end] in which this process ran."""
    import time

    total, began, last, used, ran = 0, time.time(), time.time(), time.thread_time(), []
    for _ in range(steps // 5_000):
        for step in range(5_000):
            total += step
        now, spent = time.time(), time.thread_time()
        if now - last > spent - used + 0.0003:  # somebody else had the core
            ran.append((began, last))
            began = now
        last, used = now, spent
    return [*ran, (began, last)]


def _seconds(everybody: list[list[tuple[float, float]]]) -> float:
    return max(ran[-1][1] for ran in everybody) - min(ran[0][0] for ran in everybody)


@functools.cache
def _runs(seed: int, ranks: int, steps: int) -> list[list[tuple[float, float]]]:
    """What each of so many ranks did, all at the same time."""
    from helpers.claims.ranks import ranks as start

    return [ran for ran in start(4).run(_some, ranks, steps) if ran]


def _some(ranks: int, steps: int) -> list:
    """On every rank: work on the first ``ranks`` of them."""
    from mpi4py import MPI

    from helpers.waiting import doze, meet

    meet(MPI.COMM_WORLD)
    mine = work(steps) if MPI.COMM_WORLD.rank < ranks else []
    doze(MPI.COMM_WORLD)
    return mine


def _cores() -> int:
    from helpers.machine import usable_cores

    return usable_cores()


def at_once(seed: int, ranks: int, steps: int = STEPS, instants: int = 200) -> Share:
    """Instants, of some within a run, at which more ranks ran than there are cores."""
    together = _runs(seed, ranks, steps)
    begin, span = min(ran[0][0] for ran in together), _seconds(together)
    times = [begin + span * (k + 0.5) / instants for k in range(instants)]
    running = [sum(any(a <= t <= b for a, b in ran) for ran in together) for t in times]
    return Share(sum(n > _cores() for n in running), instants)


def begun_and_not_ended(
    seed: int, ranks: int, steps: int = STEPS, instants: int = 200
) -> tuple[float, float]:
    """Ranks between their begin and their end, and ranks that ran: means over a run's instants."""
    together = _runs(seed, ranks, steps)
    begin, span = min(ran[0][0] for ran in together), _seconds(together)
    times = [begin + span * (k + 0.5) / instants for k in range(instants)]
    open_ = sum(ran[0][0] <= t <= ran[-1][1] for t in times for ran in together)
    running = sum(any(a <= t <= b for a, b in ran) for t in times for ran in together)
    return open_ / instants, running / instants


SHORT = {"steps": 20_000}

CLAIMS = [
    Claim(
        id="00-turns",
        sentence="At any moment no more ranks run than there are cores.",
        experiment=at_once,
        seeds=RUNS,
        settings=RANKS,
        verdict="holds",
        margin=0.0,
        larger=False,
        axis="the number of ranks",
        ours="instants with more",
        rival="one in ten",
        rival_share=0.1,
        unit="1",
        smallest=SHORT,
    ),
    Claim(
        id="00-lanes",
        sentence="Where ranks are more than cores, more of them have begun and not ended than run.",
        experiment=begun_and_not_ended,
        seeds=RUNS,
        settings={name: RANKS[name] for name in ("3 ranks", "4 ranks")},
        verdict="holds",
        margin=0.5,
        axis="the number of ranks",
        ours="begun and not ended",
        rival="running",
        unit="1",
        smallest=SHORT,
    ),
]
