"""Checks of notebook 01: messages without deadlock, collectives by hand, groups, and laws."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

from helpers.exercises.core import NotAttempted, call, close, equal, exercise, unattempted, wrong

LIMIT = 10.0  # seconds for the answer on the ranks: a deadlock must not take a minute


def _on_ranks(answer, cases):
    """Call ``answer(*arguments(comm), comm)`` in every case on a group; return what it returned.

    A case is (number of ranks, arguments for each of them).
    """
    from mpi4py import MPI

    from helpers.cluster.idle import doze

    world = MPI.COMM_WORLD
    names = getattr(answer, "__globals__", {})
    names.setdefault("MPI", MPI)
    results = []
    for members, arguments in cases:
        inside = world.rank < members
        group = world.Split(0 if inside else 1, world.rank)
        result = answer(*arguments[world.rank], group) if inside else None
        # a message that nobody received would be taken for one of the next case
        left_over = group.iprobe() if inside else False
        results.append((result, left_over))
        doze(world)
        group.Free()
    return results


def _results(answer, cases, cluster) -> list[list]:
    """Return, for each case, the result of every rank in it."""
    from helpers.cluster import RankError, RankTimeoutError

    if not callable(answer):
        wrong(f"expected a function, got {answer!r}")
    try:
        by_rank = cluster.run(_on_ranks, answer, cases, timeout=LIMIT)
    except RankTimeoutError as error:
        wrong(
            f"the ranks were still at it after {LIMIT:g} s. {_waits(error)} They have been started "
            "anew; run the cells that define variables on them again"
        )
    except RankError as error:
        rank, text = next(iter(error.tracebacks.items()))
        last = text.strip().splitlines()[-1]
        wrong(f"on rank {rank} it raised {last}")
    found = []
    for case, (members, _) in enumerate(cases):
        outcomes = [by_rank[rank][case] for rank in range(members)]
        results = [result for result, _ in outcomes]
        for rank, (_, left_over) in enumerate(outcomes):
            if left_over:
                wrong(f"on {members} ranks a message to rank {rank} was sent but never received")
        found.append(results)
    if all(unattempted(result) for results in found for result in results):
        raise NotAttempted(f"it returned {found[0][0]!r} on every rank")
    return found


def _waits(error) -> str:
    waits = [w for w in getattr(error, "waits", []) if w.call]
    return " ".join(f"Rank {w.rank} is in {w.call}." for w in waits)


@exercise
def statements(answer):
    """The letters of the statements that hold, such as "AB"."""
    if not isinstance(answer, str) or not answer or set(answer.upper()) - set("ABCDE"):
        wrong(f"expected letters from A to E in quotes, got {answer!r}")
    judged_wrong = len(set(answer.upper()) ^ {"A", "C", "E"})
    if judged_wrong:
        wrong(f"{judged_wrong} of your 5 judgements are not right ({len(set(answer))} chosen)")


@exercise(time_limit=60.0)
def shift(answer, cluster):
    """answer(value, comm) -> the value of the left neighbour on a ring, of any size of value."""
    import numpy as np

    words = ["one", "two", "three", "four"]
    cases = [(n, [(f"{words[r]}",) for r in range(n)]) for n in (4, 3, 2, 1)]
    results = _results(answer, cases, cluster)
    for (n, arguments), got in zip(cases, results, strict=True):
        for rank, value in enumerate(got):
            want = arguments[(rank - 1) % n][0]
            equal(value, want, f"what rank {rank} of {n} returned")
    # far above any eager limit: sends that only seem not to wait show themselves
    large = [(4, [(np.full(500_000, float(r)),) for r in range(4)])]
    for rank, value in enumerate(_results(answer, large, cluster)[0]):
        close(value, large[0][1][(rank - 1) % 4][0], f"rank {rank}, an array of 4 MB")


@exercise(time_limit=60.0)
def broadcast(answer, cluster):
    """answer(value, root, comm) -> on every rank the value that root had."""
    cases = [
        (n, [(f"from {r}" if r == root else None, root) for r in range(n)])
        for n in (4, 3, 1)
        for root in range(n)
    ]
    for (n, arguments), got in zip(cases, _results(answer, cases, cluster), strict=True):
        root = arguments[0][1]
        for rank, value in enumerate(got):
            equal(value, f"from {root}", f"on rank {rank} of {n} with root {root}")


@exercise(time_limit=60.0)
def grid_sums(answer, cluster):
    """answer(value, comm) -> (sum over my row, sum over my column) of a grid with two columns."""
    cases = [(n, [(10**r,) for r in range(n)]) for n in (4, 2)]
    for (n, arguments), got in zip(cases, _results(answer, cases, cluster), strict=True):
        for rank, value in enumerate(got):
            if not isinstance(value, tuple | list) or len(value) != 2:
                wrong(f"on rank {rank} of {n}: expected (row sum, column sum), got {value!r}")
            row = sum(arguments[r][0] for r in range(n) if r // 2 == rank // 2)
            column = sum(arguments[r][0] for r in range(n) if r % 2 == rank % 2)
            equal(value[0], row, f"the sum over the row of rank {rank} of {n}")
            equal(value[1], column, f"the sum over the column of rank {rank} of {n}")


@exercise
def document_frequency(mapper, reducer):
    """mapper(text) yields pairs, reducer(key, values) -> in how many texts the word occurs."""
    texts = ["a rose is a rose", "a red rose", "blue", "is it blue or is it red", ""]
    gathered = defaultdict(list)
    for text in texts:
        for pair in list(call(_listed(mapper), text)):
            try:
                key, value = pair
            except (TypeError, ValueError):
                wrong(f"mapper({text!r}) gave {pair!r}: expected pairs (word, value)")
            gathered[key].append(value)
    want = Counter(word for text in texts for word in set(text.split()))
    if set(gathered) != set(want):
        odd = sorted(set(gathered) ^ set(want), key=repr)[0]
        wrong(f"the keys are not the words of the texts: look at {odd!r}")
    for word in sorted(want):
        values = sorted(gathered[word], key=repr)
        equal(call(reducer, word, values), want[word], f"the number of texts with {word!r}")


def _listed(mapper):
    """A generator that yields nothing for an empty text is an answer, no result at all is not."""

    def listed(text):
        found = mapper(text)
        return None if found is None else _Pairs(found)

    listed.__name__ = getattr(mapper, "__name__", "mapper")
    return listed


class _Pairs:
    def __init__(self, pairs):
        self._pairs = list(pairs)

    def __iter__(self):
        return iter(self._pairs)


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


@exercise
def half_size(answer):
    """answer(alpha, beta) -> bytes of the message that spends half of its time in latency."""
    for alpha, beta in ((1e-6, 1e-9), (5e-5, 1e-10), (2e-6, 2.5e-10)):
        what = f"α = {alpha * 1e6:g} µs, β = {beta * 1e9:g} ns/B"
        close(call(answer, alpha, beta), alpha / beta, what, rtol=1e-3)
