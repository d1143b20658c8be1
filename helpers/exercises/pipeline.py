"""Checks behind the exercises of 11: the bubble, 1F1B, what is kept, balance, a schedule."""

from __future__ import annotations

import numbers
from typing import Any

from helpers.exercises.core import call, close, exercise, wrong
from helpers.exercises.values import whole_numbers

SIZES = ((2, 2), (2, 5), (3, 4), (4, 8), (5, 3), (1, 4))
BEFORE = 1e-9  # times that differ by less are the same


@exercise
def idle_share(answer):
    """answer(p, m) -> the share of the time in which ranks are idle, forward and backward alike."""
    from helpers.pipeline.model import bubble

    for p, m in SIZES:
        close(call(answer, p, m), bubble("GPipe", p, m), f"p={p}, m={m}")


def _schedule(answer, p: int, m: int, orders: list) -> Any:
    from helpers.pipeline import Schedule, ScheduleError, check

    where = f"for p={p}, m={m}"
    if len(orders) != p:
        wrong(f"{where}: expected a list for each of {p} ranks, got {len(orders)}")
    try:
        chunks = 1
        read = Schedule.written("yours", orders)
        chunks = 1 + max((a.chunk for order in read.orders for a in order), default=0)
        made = Schedule.written("yours", orders, chunks)
        if made.micro != m:
            wrong(f"{where}: it has {made.micro} micro-batches")
        check(made)
    except ScheduleError as error:
        wrong(f"{where}: {error}")
    except (ValueError, TypeError, AttributeError) as error:
        wrong(f"{where}: {error}")
    if any(action.kind == "U" for order in made.orders for action in order):
        wrong(f"{where}: no updates in between: all micro-batches belong to one step")
    return made


@exercise
def one_by_one(answer):
    """answer(rank, p, m) -> this rank's actions: 1F1B's bubble, and no more kept than it keeps."""
    from helpers.pipeline import simulate
    from helpers.pipeline.model import bubble, kept

    for p, m in SIZES:
        orders = [call(answer, rank, p, m) for rank in range(p)]
        orders = [list(o) if hasattr(o, "__next__") or hasattr(o, "tolist") else o for o in orders]
        if any(not isinstance(order, (list, tuple, str)) for order in orders):
            wrong(f"expected a list of actions such as ['F0', 'B0'], got {orders[0]!r}")
        made = _schedule(answer, p, m, orders)
        found = simulate(made)
        for rank in range(p):
            most, allowed = found.most_held(rank), kept("1F1B", p, m, rank)
            if most > allowed:
                wrong(
                    f"for p={p}, m={m}: rank {rank} keeps {most} micro-batches at a time, more "
                    f"than it needs to ({_line(made, rank)})"
                )
        if found.bubble > bubble("1F1B", p, m) + BEFORE:
            wrong(
                f"for p={p}, m={m}: ranks are idle {found.bubble:.1%} of the time, more than "
                f"GPipe's {bubble('1F1B', p, m):.1%}"
            )


def _line(schedule, rank: int) -> str:
    return f"rank {rank}: {' '.join(map(str, schedule.orders[rank]))}"


@exercise
def kept_at_most(answer):
    """answer(rank, p, m) -> micro-batches that a rank keeps at most under 1F1B."""
    from helpers.pipeline.model import kept

    for p, m in SIZES:
        for rank in range(p):
            close(call(answer, rank, p, m), kept("1F1B", p, m, rank), f"rank {rank}, p={p}, m={m}")


@exercise
def balance(answer):
    """answer(costs, p) -> how many layers each of p stages gets, the dearest stage cheapest."""
    from helpers.pipeline import partition

    cases = (([1, 1, 1, 1], 2), ([5, 1, 1, 1, 1, 1], 2), ([3, 1, 4, 1, 5, 9, 2, 6], 3))
    uneven = (([4, 2, 1, 5, 2], 3), ([2, 1, 3, 1, 5, 2], 3))  # the cheapest is not the most even
    single = (([1, 1, 1, 9], 3), ([2, 7, 1, 8, 2, 8], 1), ([4, 3, 2], 3))
    for costs, p in (*cases, *uneven, *single):
        what = f"costs={costs}, p={p}"
        counts = whole_numbers(call(answer, list(costs), p), what)
        if len(counts) != p:
            wrong(f"{what}: expected {p} numbers of layers, got {counts}")
        if min(counts) < 1 or sum(counts) != len(costs):
            wrong(f"{what}: {counts} does not give away {len(costs)} layers, one each or more")
        got = partition.dearest(costs, partition.by_hand(counts))
        if got > partition.dearest(costs, partition.balanced(costs, p)):
            wrong(f"{what}: with {counts} the dearest stage costs {got}; less is possible")


@exercise
def staleness(answer):
    """answer(rank, p) -> updates that PipeDream's gradients miss on a rank, once it is full."""
    for p in (1, 2, 3, 4, 8):
        for rank in range(p):
            got = call(answer, rank, p)
            got = got.item() if hasattr(got, "item") else got
            if isinstance(got, bool) or not isinstance(got, numbers.Real):
                wrong(f"rank {rank} of {p}: expected a number, got {got!r}")
            if got != p - 1 - rank:
                wrong(
                    f"rank {rank} of {p}: {got} is not what the run counts; how many updates does "
                    "it make between F and B of the same batch?"
                )


@exercise(time_limit=90)
def own_schedule(answer, cluster):
    """answer(p, m) -> a list of actions for each rank: less idle than all F, all I, all W."""
    from helpers.pipeline import Costs, runs, simulate

    for p, m in ((4, 8), (2, 4), (3, 6)):
        orders = call(answer, p, m)
        if not isinstance(orders, (list, tuple)):
            wrong(f"for p={p}, m={m}: expected a list of lists, got {type(orders).__name__}")
        made = _schedule(answer, p, m, orders)
        part = 1 / made.chunks
        found = simulate(made, Costs(part, part, part)).bubble
        simple = 2 * (p - 1) / (3 * m + 2 * (p - 1))
        if found > simple - BEFORE:
            wrong(
                f"for p={p}, m={m}: it runs, and ranks are idle {found:.1%} of the time; to write "
                f'"I W" for every "B" leaves them idle {simple:.1%}: move the W'
            )
        if p <= cluster.n and made.stages <= runs.SMALL.pieces:
            worst = max(cluster.run(runs.difference, made, timeout=60))
            if worst > 1e-12:
                wrong(f"for p={p}, m={m}: gradients on the ranks are off by {worst:.1e}")
