"""Checks of notebook 01: messages without deadlock, collectives by hand, groups, and laws."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

from helpers.exercises.core import call, close, equal, exercise, on_ranks, wrong
from helpers.exercises.groups import Case, Outcome, by_case, in_groups


def _outcomes(answer, cases: list[Case], cluster) -> list[list[Outcome]]:
    """Return, for each case, what the answer did on every rank in it."""
    return by_case(on_ranks(cluster, in_groups, answer, cases), cases)


@exercise
def statements(answer):
    """The letters of the statements that hold, such as "AB"."""
    letters = set(answer.upper()) - set(" ,;") if isinstance(answer, str) else set()
    if not letters or letters - set("ABCDE"):
        wrong(f"expected letters from A to E in quotes, got {answer!r}")
    judged_wrong = len(letters ^ {"A", "C", "E"})
    if judged_wrong:
        wrong(f"{judged_wrong} of your 5 judgements are not right ({len(letters)} chosen)")


@exercise(time_limit=60.0)
def shift(answer, cluster):
    """answer(value, comm) -> the value of the left neighbour on a ring, of any size of value."""
    import numpy as np

    words = ["one", "two", "three", "four"]
    large = 500_000  # numbers: far above any eager limit, where sends that seem not to wait do wait
    sizes = [(4, 0), (4, large), (3, 0), (2, 0), (1, 0)]
    cases = [
        Case(n, lambda r, size=size: (np.full(size, float(r)) if size else words[r],))
        for n, size in sizes
    ]
    found = _outcomes(answer, cases, cluster)
    for (n, size), outcomes in zip(sizes, found, strict=True):
        for rank, outcome in enumerate(outcomes):
            if size:
                want = np.full(size, float((rank - 1) % n))
                close(outcome.returned, want, f"rank {rank}, an array of 4 MB")
            else:
                equal(outcome.returned, words[(rank - 1) % n], f"what rank {rank} of {n} returned")
    for outcomes in found:
        for rank, outcome in enumerate(outcomes):
            if outcome.calls["sendrecv"] or outcome.calls["sendrecv_replace"]:
                wrong("right, but it uses sendrecv, which is what you are to do without")
            if outcome.pending:
                wrong(
                    f"right, but rank {rank} of {len(outcomes)} begins a message and does not wait "
                    "for its end: until then the value must not be changed"
                )


@exercise(time_limit=60.0)
def broadcast(answer, cluster):
    """answer(value, root, comm) -> on every rank the value that root had."""
    trials = [(n, root) for n in (4, 3, 1) for root in range(n)]
    cases = [
        Case(n, lambda r, root=root: (f"from {r}" if r == root else None, root))
        for n, root in trials
    ]
    found = _outcomes(answer, cases, cluster)
    for (n, root), outcomes in zip(trials, found, strict=True):
        for rank, outcome in enumerate(outcomes):
            equal(outcome.returned, f"from {root}", f"on rank {rank} of {n} with root {root}")
    for (n, _), outcomes in zip(trials, found, strict=True):
        if sum(outcome.messages for outcome in outcomes) < n - 1:
            used = sorted({name for outcome in outcomes for name in outcome.calls})
            wrong(f"right, but by {', '.join(used)}: do it with sends and receives alone")


@exercise(time_limit=60.0)
def grid_sums(answer, cluster):
    """answer(value, comm) -> (sum over my row, sum over my column) of a grid with two columns."""
    cases = [Case(n, lambda r: (10**r,)) for n in (4, 2)]
    for case, outcomes in zip(cases, _outcomes(answer, cases, cluster), strict=True):
        n = case.ranks
        for rank, outcome in enumerate(outcomes):
            value = outcome.returned
            if not isinstance(value, tuple | list) or len(value) != 2:
                wrong(f"on rank {rank} of {n}: expected (row sum, column sum), got {value!r}")
            row = sum(10**r for r in range(n) if r // 2 == rank // 2)
            column = sum(10**r for r in range(n) if r % 2 == rank % 2)
            equal(value[0], row, f"the sum over the row of rank {rank} of {n}")
            equal(value[1], column, f"the sum over the column of rank {rank} of {n}")


@exercise
def document_frequency(mapper, reducer):
    """mapper(text) yields pairs, reducer(key, values) -> in how many texts the word occurs."""
    texts = ["a rose is a rose", "a red rose", "blue", "blue", "is it blue or is it red", "", "Red"]
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
