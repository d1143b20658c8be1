"""Checks behind the exercises of notebook 06."""

from __future__ import annotations

import contextlib
import math
import time
import timeit
from collections.abc import Iterator
from typing import TYPE_CHECKING

from helpers.exercises.core import NotAttempted, call, close, equal, exercise, wrong
from helpers.exercises.values import number

if TYPE_CHECKING:
    import numpy as np


@exercise
def keep_the_rank(answer):
    """answer(G, x, damping) -> one PageRank step that keeps the sum, dangling nodes included.

    G: dense (N, N), G[i, j] = 1 for an edge j → i; x: (N,), sum 1.
    """
    import numpy as np

    rng = np.random.default_rng(6)
    for n, dangling, damping in ((4, 0, 0.85), (4, 1, 0.85), (7, 3, 0.6), (3, 3, 0.9)):
        G = (rng.random((n, n)) < 0.5).astype(float)
        G[0, G.sum(axis=0) == 0] = 1
        G[:, rng.permutation(n)[:dangling]] = 0
        x = rng.random(n)
        x /= x.sum()
        what = f"N={n} with {dangling} dangling nodes, d={damping}"
        given = G.copy()
        got = np.asarray(call(answer, given, x.copy(), damping), dtype=float)
        if got.shape == (n,) and not np.isclose(got.sum(), 1):
            wrong(f"{what}: the ranks went in with sum 1 and came out with {got.sum():.3f}")
        out = G.sum(axis=0)
        share = np.divide(x, out, out=np.zeros(n), where=out > 0)
        want = damping * (G @ share + x[out == 0].sum() / n) + (1 - damping) / n
        leaking = damping * (G @ share) + (1 - damping) / n
        scaled = leaking / leaking.sum()
        if got.shape == (n,) and np.allclose(got, scaled) and not np.allclose(scaled, want):
            wrong(
                f"{what}: the sum is 1, because what was left was scaled up: that gives the lost "
                "rank to nodes by their rank, not to all alike"
            )
        close(got, want, f"{what}, the new ranks")
        if not np.array_equal(given, G):
            wrong(f"{what}: right, but it changes G, which the next step needs as it is")


@exercise
def count_bytes(dense, csr, bits):
    """Bytes of the matrix in each form for N nodes and E edges, fp32 values, int32 indices."""
    for n, e in ((10_000, 100_000), (64_000, 1_000_000), (320, 7)):
        what = f"N={n}, E={e}"
        equal(call(dense, n, e), 4 * n * n, f"dense, {what}")
        equal(call(csr, n, e), 8 * e + 4 * (n + 1), f"CSR, {what}")
        equal(call(bits, n, e), n * n // 8, f"bits, {what} (N is a multiple of 32)")


@exercise
def boundary(answer):
    """answer(columns, first, last) -> entries a rank must receive in each iteration.

    columns: the column indices of its rows, with repetitions; it owns nodes first to last − 1.
    """
    import numpy as np

    rng = np.random.default_rng(7)
    for first, last in ((0, 5), (5, 10), (3, 4)):
        columns = rng.integers(0, 12, 40)
        want = len({int(c) for c in columns} - set(range(first, last)))
        got = call(answer, columns.copy(), first, last)
        equal(got, want, f"40 columns among 12 nodes, rows {first} to {last - 1}")
    equal(call(answer, np.array([2, 2, 3]), 0, 12), 0, "a rank that owns every node")


class _Queue:
    """Work that takes its time after the call has returned, on a clock that stands otherwise.

    The clocks of ``time`` are this one while an answer runs, so that no machine is too busy.
    """

    def __init__(self, first: float, spent: float, repeats: int):
        self.now, self.done, self.first, self.spent, self.calls = 0.0, 7.0, first, spent, 0
        self.quiet = (3,) if repeats > 1 else (1, 2, 3)  # calls that nobody disturbs

    def call(self) -> None:
        self.calls += 1
        work = self.spent * (1 if self.calls in self.quiet else 2)
        work += self.first if self.calls == 1 else 0
        self.done = max(self.done, self.now) + work
        self.now += 1e-6

    def wait(self) -> None:
        self.now = max(self.now, self.done)


@contextlib.contextmanager
def _clocks(queue: _Queue, answer: object) -> Iterator[None]:
    """Let every clock of ``time`` show the queue's, under whatever name the answer knows it."""
    names = ("perf_counter", "monotonic", "time")
    seconds = [getattr(time, name) for name in names]
    nanoseconds = [getattr(time, f"{name}_ns") for name in names]
    fakes = {id(clock): lambda: queue.now for clock in seconds}
    fakes |= {id(clock): lambda: round(1e9 * queue.now) for clock in nanoseconds}
    functions = [answer, timeit.repeat, timeit.timeit, timeit.Timer.__init__]
    defaults = [(f, f.__defaults__) for f in functions if getattr(f, "__defaults__", None)]
    for function, values in defaults:
        function.__defaults__ = tuple(fakes.get(id(value), value) for value in values)
    closed = [(cell, cell.cell_contents) for cell in getattr(answer, "__closure__", None) or ()]
    for cell, value in closed:
        cell.cell_contents = fakes.get(id(value), value)
    places = (vars(time), vars(timeit), getattr(answer, "__globals__", {}))
    found = [
        (p, k, v)
        for p in places
        for k, v in p.items()
        if any(v is clock for clock in (*seconds, *nanoseconds))
    ]
    for place, name, clock in found:
        place[name] = fakes[id(clock)]
    try:
        yield
    finally:
        for place, name, clock in found:
            place[name] = clock
        for function, values in defaults:
            function.__defaults__ = values
        for cell, value in closed:
            cell.cell_contents = value


@exercise
def timed(answer):
    """answer(call, wait, repeats) -> best seconds of one call whose work is queued."""
    for first, spent, repeats in ((5.0, 0.5, 3), (1.0, 2.0, 1), (3.0, 0.25, 4)):
        queue = _Queue(first, spent, repeats)
        with _clocks(queue, answer):
            got = call(answer, queue.call, queue.wait, repeats)
        what = f"work of {spent:g} s, the first time {first:g} s more, {repeats} repeats"
        got = number(got, f"{what}: the seconds")
        if got < 0.01 * spent:
            wrong(f"{what}: {got:.3g} s is the time that it takes to queue")
        close(got, spent, f"{what}: seconds", rtol=1e-3)
        if not repeats <= queue.calls <= repeats + 2:
            wrong(f"{what}: the call was made {queue.calls} times")


@exercise
def at_the_latest(answer):
    """answer(damping, tolerance) -> the least k with 2 damping**k <= tolerance."""
    for damping, tolerance in ((0.85, 1e-10), (0.85, 1e-6), (0.5, 0.3), (0.5, 0.25)):
        want = next(k for k in range(10**4) if 2 * damping**k <= tolerance)
        what = f"d = {damping}, tolerance {tolerance:g}"
        got = call(answer, damping, tolerance)
        if isinstance(got, (int, float)) and 0 <= got < 10**5 and 2 * damping**got > tolerance:
            wrong(f"{what}: after {got:g} iterations the bound is still above it")
        equal(got, want, f"iterations for {what}")


@exercise
def sweep(answer):
    """answer(x, into, out, order, damping) -> the change; x holds the new ranks of order."""
    import numpy as np

    rng = np.random.default_rng(9)
    for n, visited, damping in ((3, 3, 0.85), (6, 6, 0.5), (9, 4, 0.85)):
        G = np.triu(rng.random((n, n)) < 0.6, 1) | (rng.random((n, n)) < 0.2)
        G[0, :-1] = G[1, 0] = True  # every node but the last has a link out
        G[:, -1] = False
        if n != 6:  # there, nodes may link to themselves
            np.fill_diagonal(G, False)
        into, out = [np.flatnonzero(row).tolist() for row in G], G.sum(axis=0).tolist()
        before, order = rng.random(n).tolist(), rng.permutation(n)[:visited].tolist()
        want, old, change = before.copy(), before.copy(), 0.0
        for i in order:
            base = (1 - damping) / n
            want[i] = base + damping * sum(want[j] / out[j] for j in into[i])
            old[i] = base + damping * sum(before[j] / out[j] for j in into[i])
            change += abs(want[i] - before[i])
        x = before.copy()
        given = [row.copy() for row in into], out.copy(), order.copy()
        what = f"{n} nodes, {visited} visits, d = {damping}"
        try:
            got = call(answer, x, *given, damping)
        except NotAttempted:
            if list(x) == before:
                raise
            wrong(f"{what}: the ranks in x have changed, but it returned None, expected the change")
        if list(x) == before:
            wrong(f"{what}: the list x that was handed in is as it was, and you return {got!r}")
        if len(x) == n and np.allclose(x, old) and not np.allclose(x, want):
            wrong(f"{what}: every visit has read the ranks from before the first visit")
        close(x, want, f"{what}, in the order {order}: the ranks")
        close(got, change, f"{what}: the ranks are right, the change")
        if list(given) != [into, out, order]:
            wrong(f"{what}: it changes into, out or order, which the next sweep needs as they are")


@exercise
def largest_dense(answer):
    """answer(memory, bits) -> the most nodes whose dense matrix fits into so many bytes."""
    for memory, bits in ((2**34, 32), (2**34, 1), (10**9, 64), (1000, 8)):
        what = f"{memory} bytes, {bits} bits an entry"
        got = call(answer, memory, bits)
        if isinstance(got, (int, float)) and got * got * bits > 8 * memory:
            wrong(f"{what}: a matrix of {got:g} nodes does not fit")
        equal(got, math.isqrt(8 * memory // bits), f"nodes for {what}")


@exercise(time_limit=10)
def my_pagerank(answer):
    """answer(source, target, nodes, damping, tolerance) -> ranks (nodes,), sum 1, sparse."""
    import numpy as np

    from helpers.pagerank import pagerank

    for nodes, pairs, damping, tolerance in _edges():
        source, target = pairs.T
        what = f"{nodes} nodes, {len(pairs)} edges, d = {damping}, tolerance {tolerance:g}"
        dangling = nodes - len(np.unique(source))
        began, given = time.perf_counter(), (source.copy(), target.copy())
        got = call(answer, *given, nodes, damping, tolerance)
        spent = time.perf_counter() - began
        if spent > 8:
            wrong(
                f"{what}: right or not, it took {spent:.0f} s: does a loop in Python visit edges?"
            )
        A = _matrix(source, target, nodes)
        want = pagerank(A, "csr", damping=damping, max_iterations=10_000).scores
        got = np.asarray(got, dtype=float)
        if got.shape == (nodes,) and abs(got.sum() - 1) > 1e-6:
            wrong(f"{what}, {dangling} of them dangling: the ranks sum to {got.sum():.4f}")
        close(got, want, f"{what}, the ranks", rtol=1e-4, atol=max(1e-8, tolerance / (1 - damping)))
        most = tolerance / (1 - damping) + 1e-7  # for single precision
        if (apart := np.abs(got - want).sum()) > most:
            wrong(
                f"{what}: the ranks are {apart:.1e} apart from where they would settle; if the sum "
                f"of |change| were down to {tolerance:g}, it would be {most:.1e} at most"
            )
        if not all(map(np.array_equal, given, (source, target))):
            wrong(f"{what}: it changes source or target, which whoever calls it needs as they are")


def _edges() -> Iterator[tuple[int, np.ndarray, float, float]]:
    """Nodes, pairs (source, target), damping and tolerance of some graphs."""
    import numpy as np

    # Pairs of cycles, of which one is linked to: 200 iterations are far from enough, and a change
    # of so little at each node is much in all.
    once = np.array([(0, 1), (1, 0), (2, 3), (3, 2), (4, 0), (5, 0)])
    for copies, damping, tolerance in ((1, 0.99, 1e-9), (100, 0.9, 1e-5)):
        pairs = (once + 6 * np.arange(copies)[:, None, None]).reshape(-1, 2)
        yield 6 * copies, pairs, damping, tolerance
    rng = np.random.default_rng(8)
    for nodes, count, least, damping in (
        (6, 9, 0, 0.85),
        (50, 120, 25, 0.5),
        (60_000, 240_000, 0, 0.85),
    ):
        pairs = np.unique(rng.integers(least, nodes, (count, 2)), axis=0)
        pairs[:, 1] = rng.permutation(nodes)[pairs[:, 1]]
        yield nodes + (nodes == 50), np.unique(pairs, axis=0), damping, 1e-9  # one without a link


def _matrix(source, target, nodes: int):
    import numpy as np
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(source)), (source, target)), shape=(nodes, nodes))
