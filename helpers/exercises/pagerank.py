"""Checks behind the exercises of notebook 06."""

from __future__ import annotations

from helpers.exercises.core import call, close, equal, exercise, wrong


@exercise
def keep_the_rank(answer):
    """answer(G, x, damping) -> one PageRank step that keeps the sum, dangling nodes included.

    G: dense (N, N), G[i, j] = 1 for an edge j → i; x: (N,), sum 1.
    """
    import numpy as np

    rng = np.random.default_rng(6)
    for n, dangling in ((4, 0), (4, 1), (7, 3), (3, 3)):
        G = (rng.random((n, n)) < 0.5).astype(float)
        G[0, G.sum(axis=0) == 0] = 1
        G[:, rng.permutation(n)[:dangling]] = 0
        x = rng.random(n)
        x /= x.sum()
        what = f"N={n} with {dangling} dangling nodes"
        got = np.asarray(call(answer, G.copy(), x.copy(), 0.85), dtype=float)
        if got.shape == (n,) and not np.isclose(got.sum(), 1):
            wrong(f"{what}: the ranks went in with sum 1 and came out with {got.sum():.3f}")
        out = G.sum(axis=0)
        share = np.divide(x, out, out=np.zeros(n), where=out > 0)
        want = 0.85 * (G @ share + x[out == 0].sum() / n) + 0.15 / n
        close(got, want, f"{what}, the new ranks")


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
