"""Checks of notebook 01: messages without deadlock, collectives by hand, groups, and laws."""

from __future__ import annotations

import math
from functools import partial

from helpers.exercises.answers import letters, several
from helpers.exercises.core import WrongAnswer, call, close, equal, exercise, wrong
from helpers.exercises.groups import (
    Case,
    more_ranks,
    nothing_begun,
    rank_results,
    rounds,
)

BEGINS = {"isend", "issend", "ibsend", "irsend", "irecv", "start", "startall"}  # requests


@exercise
def statements(answer, order="ABCDE"):
    """The letters of the statements that hold, such as "AB"; they may stand in another order."""
    chosen = letters(answer, order)
    if errors := len(chosen ^ {"A", "C", "E"}):
        are = "is" if errors == 1 else "are"
        wrong(f"{errors} of your 5 judgements {are} not right ({len(chosen)} chosen)")


@exercise(time_limit=60.0)
def shift(answer, cluster, by=1):
    """answer(value, comm) -> what the rank ``by`` to the left has, a value of any size."""
    import numpy as np

    words = ["one", "two", "three", "four"]
    large = 500_000  # numbers: far above any eager limit, where sends that seem not to wait do wait
    sizes = [(4, 0), (4, large), (3, 0), (2, 0), (1, 0)]
    given = lambda size, rank: (np.full(size, float(rank)) if size else words[rank],)  # noqa: E731
    cases = [
        Case(n, partial(given, size), "an array of 4 MB" if size else "a short word")
        for n, size in sizes
    ]
    found = rank_results(cluster, answer, cases[:1])
    try:
        found += rank_results(cluster, answer, cases[1:2])
    except WrongAnswer as error:
        wrong(f"a short word came through; {error}")
    found += rank_results(cluster, answer, cases[2:])
    for (n, size), there in zip(sizes, found, strict=True):
        for rank, result in enumerate(there):
            if size:
                want = np.full(size, float((rank - by) % n))
                close(result.returned, want, f"rank {rank}, an array of 4 MB")
            else:
                equal(result.returned, words[(rank - by) % n], f"what rank {rank} of {n} returned")
    for there in found:
        for result in there:
            if result.calls["sendrecv"] or result.calls["sendrecv_replace"]:
                wrong("right, but it uses sendrecv, which is what you are to do without")
            used = ", ".join(sorted(result.calls)) or "no message"
            if len(there) > 1 and result.messages != 1:
                wrong(f"right, but by {used}: one message from each rank is enough")
            if len(there) > 1 and not result.calls.keys() & BEGINS:
                wrong(f"right, but by {used}: begin a message by a request, so that nobody waits")
        nothing_begun(there)


@exercise(time_limit=60.0)
def tree_broadcast(answer, cluster):
    """answer(value, comm) -> on every rank rank 0's value, in few rounds."""

    def cases(*sizes: int) -> list[Case]:
        return [Case(n, lambda r: (r,), "rank r's value is r") for n in sizes]

    found = rank_results(cluster, answer, cases(4, 3, 2, 1))
    with more_ranks(7) as seven:  # where a rank with two children takes too long
        found += rank_results(seven, answer, cases(7)) if seven else []
    for there in found:
        for rank, result in enumerate(there):
            what = f"rank 0's value is 0, that of rank {rank} is {rank}; what rank {rank} returned"
            equal(result.returned, 0, f"on {len(there)} ranks {what}")
    for there in found:
        n = len(there)
        if sum(result.messages for result in there) != n - 1:
            used = sorted({name for result in there for name in result.calls})
            wrong(f"right, but by {', '.join(used)}: do it with {n - 1} sends and receives alone")
        took = rounds(there, 0)
        if took > (n - 1).bit_length():
            wrong(f"right, but on {n} ranks it takes {took} steps; a tree takes fewer")
        nothing_begun(there)


@exercise(time_limit=60.0)
def hand_over(answer, cluster):
    """answer(value, comm) -> on the last rank rank 0's value, None elsewhere."""
    values = [lambda r: {"from": r}, lambda r: r]  # of rank 0: a full dictionary, and a 0
    tried = [(n, value) for value in values for n in (4, 2, 3, 1)]
    given = lambda value, rank: (value(rank),)  # noqa: E731
    cases = [Case(n, partial(given, value), f"the value {value(0)}") for n, value in tried]
    for (_, value), there in zip(tried, rank_results(cluster, answer, cases), strict=True):
        n = len(there)
        for rank, result in enumerate(there):
            want = value(0) if rank == n - 1 else None
            equal(result.returned, want, f"the value {value(0)}: what rank {rank} of {n} returned")
        if n > 1 and sum(result.messages for result in there) != 1:
            wrong(f"right, but on {n} ranks it is not one message by send and recv")
        nothing_begun(there)


def _generation(board, reach):
    """One step of Conway's game on a torus, with neighbours up to so many rows and columns away."""
    import numpy as np

    near = range(-reach, reach + 1)
    steps = [(i, j) for i in near for j in near if i or j]
    around = sum(np.roll(board, shift, (0, 1)).astype(int) for shift in steps)
    return (around == 3) | (board & (around == 2))


@exercise(time_limit=60.0)
def life(answer, cluster, reach=1):
    """answer(mine, steps, comm) -> this rank's rows of the board after so many steps."""
    import numpy as np

    long = 200_000  # cells: a row far above any eager limit
    trials = [(4, (10, 7), 6), (3, (8, 9), 5), (2, (5, 6), 4), (1, (6, 5), 3), (4, (12, 6), 0)]
    trials += [(4, (4, 9), 3), (2, (2, long), 1)]  # a single row on each rank
    trials += [(2, (60, 500), 2)]  # blocks so much larger than rows that to send them is seen
    trials = [(n, (reach * rows, columns), steps) for n, (rows, columns), steps in trials]
    boards = [np.random.default_rng(7).random(shape) < 0.4 for _, shape, _ in trials]
    given = lambda parts, steps, rank: (parts[rank].copy(), steps)  # noqa: E731
    cases = [
        Case(
            n,
            partial(given, np.array_split(board, n), steps),
            f"a board of {shape[0]} × {shape[1]}, {steps} steps",
        )
        for (n, shape, steps), board in zip(trials, boards, strict=True)
    ]
    found = rank_results(cluster, answer, cases)
    for (n, shape, steps), board, there in zip(trials, boards, found, strict=True):
        for _ in range(steps):
            board = _generation(board, reach)
        for rank, (result, rows) in enumerate(zip(there, np.array_split(board, n), strict=True)):
            what = f"a board of {shape[0]} × {shape[1]}, {steps} steps: the rows of rank {rank}"
            close(result.returned, rows.astype(float), f"{what} of {n}")
            most = steps * 2 * (8 * reach * shape[1] + 256)  # numbers of 8 bytes, pickled
            used = ", ".join(sorted(result.calls)) or "no message"
            if n > 1 and steps and not result.messages:
                wrong(f"right, but by {used}: send each neighbour only what it needs in a step")
            if n > 1 and result.bytes > most:
                sends = f"rank {rank} of {n} sends {result.bytes:,} B in {steps} steps, and"
                wrong(f"right, but by {used}: {sends} neighbours need less than {most:,} B")
        nothing_begun(there)


@exercise(time_limit=60.0)
def grid_sums(answer, cluster, columns=2):
    """answer(value, comm) -> (sum over my row, sum over my column) of a grid of some columns."""

    def compare(ranks, sizes) -> None:
        cases = [Case(n, lambda r: (10**r,)) for n in sizes]
        for n, there in zip(sizes, rank_results(ranks, answer, cases), strict=True):
            for rank, result in enumerate(there):
                expected = f"on rank {rank} of {n}: expected (row sum, column sum)"
                pair = several(result.returned, 2, expected)
                row = sum(10**r for r in range(n) if r // columns == rank // columns)
                column = sum(10**r for r in range(n) if r % columns == rank % columns)
                equal(pair[0], row, f"the sum over the row of rank {rank} of {n}")
                equal(pair[1], column, f"the sum over the column of rank {rank} of {n}")

    compare(cluster, (4, 2) if columns == 2 else (columns,))
    with more_ranks(6) as six:  # three rows: more than an answer for four may have foreseen
        if six:
            compare(six, (6,))


@exercise
def ranks_for(answer):
    """answer(speed_up, serial) -> fewest ranks by Amdahl's law, or math.inf if there are none."""
    cases = [(2, 0.1), (4, 0.05), (1, 0.3), (2.5, 0.0), (6, 0.1), (11, 0.1), (20, 0.05), (60, 0.01)]
    for speed_up, serial in cases:
        what = f"a speed-up of {speed_up} with a serial fraction of {serial}"
        got = call(answer, speed_up, serial)
        ceiling = math.inf if serial == 0 else 1 / serial
        want = math.inf
        if speed_up < ceiling * (1 - 1e-9):
            want = math.ceil((1 - serial) / (1 / speed_up - serial) - 1e-9)
        if isinstance(got, float) and math.isfinite(got) and got != int(got):
            wrong(f"{what}: {got:g} is no whole number of ranks")
        equal(got, want, what)
