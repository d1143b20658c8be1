"""Checks behind the exercises of notebook 06."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from helpers.exercises.core import call, close, equal, exercise, wrong

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
def count_bytes(dense, csr, least):
    """Bytes of the matrix in both forms for N nodes and E edges, fp32 values, int32 indices.

    least(matrix, N, bandwidth) -> seconds to move the matrix and two vectors of N fp32 values.
    """
    import numpy as np

    for n, e in ((10_000, 100_000), (64_000, 1_000_000), (320, 7)):
        what = f"N={n}, E={e}"
        equal(call(dense, n, e), 4 * n * n, f"dense, {what}")
        equal(call(csr, n, e), 8 * e + 4 * (n + 1), f"CSR, {what}")
    for matrix, n, bandwidth in ((40_000, 100, 1e9), (840_004, 10_000, 2.5e10)):
        what = f"least, a matrix of {matrix} bytes, N={n}, {bandwidth:g} bytes/s"
        got = call(least, matrix, n, bandwidth)
        if isinstance(got, (int, float)) and np.isclose(got, matrix / bandwidth, atol=0):
            wrong(f"{what}: {got:g} s is the time of the matrix alone")
        close(got, (matrix + 8 * n) / bandwidth, f"{what}, the seconds", atol=0)


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


@exercise(time_limit=20)
def my_pagerank(answer):
    """answer(source, target, nodes, damping, tolerance) -> ranks (nodes,), sum 1, sparse."""
    import numpy as np
    from scipy.sparse import csr_array

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
        A = csr_array((np.ones(len(source)), (source, target)), shape=(nodes, nodes))
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
    # of so little at each node, or in the 2-norm, is much in all.
    once = np.array([(0, 1), (1, 0), (2, 3), (3, 2), (4, 0), (5, 0)])
    for copies, damping, tolerance in ((1, 0.99, 1e-9), (1000, 0.9, 1e-5)):
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
