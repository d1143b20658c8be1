"""Checks behind the exercises of 11: 1F1B, what is kept, W put off, a schedule of one's own."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Set
from typing import Any

from helpers.exercises.core import call, close, exercise, line_of, short, wrong

SIZES = ((2, 2), (2, 5), (3, 4), (4, 8), (5, 3), (1, 4))
BEFORE = 1e-9  # times that differ by less are the same


def _schedule(p: int, m: int, orders: Any, where: str) -> Any:
    """Read an answer's lists, of any type that can be gone through, as a schedule that can run."""
    from helpers.pipeline import Schedule, ScheduleError, check

    orders = _items(orders, f"{where}: expected a list of actions for each rank")
    if len(orders) != p:
        wrong(f"{where}: expected a list for each of {p} ranks, got {len(orders)}")
    expected = f"{where}: expected a list of actions such as ['F0', 'B0'] for each rank"
    orders = [o.split() if isinstance(o, str) else _items(o, expected) for o in orders]
    try:
        read = Schedule.written("yours", orders)
        chunks = 1 + max((a.chunk for order in read.orders for a in order), default=0)
        made = Schedule.written("yours", orders, chunks)
        if made.micro != m:
            wrong(f"{where}: in your lists the number of micro-batches is {made.micro}")
        check(made)
    except (ScheduleError, ValueError) as error:
        wrong(f"{where}: {error}")
    if any(action.kind == "U" for order in made.orders for action in order):
        wrong(f"{where}: no updates in between: all micro-batches belong to one step")
    return made


def _items(got: Any, expected: str) -> list:
    """Return what an answer's list, tuple, array or generator has in it."""
    ordered = not isinstance(got, str | bytes | Mapping | Set) and getattr(got, "shape", 1) != ()
    if not ordered or not isinstance(got, Iterable):
        wrong(f"{expected}; got {short(got)}")
    try:
        return list(got)
    except Exception as error:  # of a generator, which runs only now
        wrong(f"{expected}; it raised {type(error).__name__}: {error}{line_of(error)}")


@exercise
def one_by_one(answer):
    """answer(rank, p, m) -> this rank's actions: 1F1B's bubble, and no more kept than it keeps."""
    from helpers.pipeline import simulate
    from helpers.pipeline.model import bubble, kept

    for p, m in SIZES:
        orders = [call(answer, rank, p, m) for rank in range(p)]
        made = _schedule(p, m, orders, f"for p={p}, m={m}")
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
def put_off(answer):
    """answer(order, rank) -> the order with every W put in: nobody waits longer than needed."""
    from helpers.pipeline import families, simulate

    for p, m in ((3, 4), (2, 2), (4, 8), (3, 3), (5, 6)):
        halves = [
            [str(action).replace("B", "I") for action in order]
            for order in families.one_f_one_b(p, m).orders
        ]
        where = f"for p={p}, m={m}"
        made = _schedule(p, m, [call(answer, list(o), r) for r, o in enumerate(halves)], where)
        found = simulate(made)
        waits = found.span - 3 * m  # every rank works for 3 m
        if waits > p - 1 + BEFORE:
            wrong(
                f"{where}: each rank waits for {waits:g} forward passes in a step, and {p - 1} are "
                f"enough. {_late(found)}"
            )


def _late(found) -> str:
    """Say for whom a rank waits after its first I, which it never does in the best schedule."""
    made = found.schedule
    for rank in reversed(range(made.ranks)):
        mine = [box for box in found.boxes if box.rank == rank]
        first = next(k for k, box in enumerate(mine) if box.action.kind in "IB")
        for before, then in itertools.pairwise(mine[first:]):
            if then.begin > before.end + BEFORE:
                there = made.source(rank, then.action)[0]
                return (
                    f"After {before.action}, rank {rank} waits for rank {there} before it can do "
                    f"{then.action} ({_line(made, rank)}; {_line(made, there)})"
                )
    return "; ".join(_line(made, rank) for rank in range(made.ranks))


# The project: p, m and room → the most forward passes that a step may take. The schedules of the
# notebook do not fit into the room or take longer, and so do those with each B cut in two.
WITHIN = {(4, 8, 6): 35, (3, 6, 4): 27, (2, 4, 3): 16, (3, 8, 5): 32}  # the text hides the last


@exercise(time_limit=90)
def own_schedule(answer, cluster):
    """answer(p, m, room) -> a list of actions for each rank: it fits, and hides dear messages."""
    from helpers.pipeline import Costs, runs, simulate

    for (p, m, room), most in WITHIN.items():
        where = f"for p={p}, m={m}, room={room}"
        made = _schedule(p, m, call(answer, p, m, room), where)
        if made.chunks > 1:
            wrong(f"{where}: a rank has {made.chunks} chunks; here each rank has one")
        found = simulate(made, Costs(message=1))
        for rank in range(p):
            if (kept := found.most_held(rank)) > room:
                wrong(f"{where}: rank {rank} keeps {kept} micro-batches at a time")
        if found.span > most + BEFORE:
            wrong(
                f"{where}: it runs and it fits, and takes {found.span:g} forward passes; at most "
                f"{most} are wanted. Draw it: who waits for a message, and has nothing else to do?"
            )
        if p <= cluster.n:
            worst = max(cluster.run(runs.difference, made, timeout=60))
            if worst > 1e-12:
                wrong(f"{where}: gradients on the ranks are off by {worst:.1e}")
