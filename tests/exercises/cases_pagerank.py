"""Right and wrong answers to the exercises of notebook 06."""

import math

import numpy as np

from tests.exercises.case import Case


def kept(G, x, damping):
    out = G.sum(axis=0)
    share = np.divide(x, out, out=np.zeros_like(x), where=out > 0)
    lost = x[out == 0].sum()
    return damping * (G @ share + lost / len(x)) + (1 - damping) / len(x)


def leaking(G, x, damping):
    out = np.maximum(G.sum(axis=0), 1)
    return damping * G @ (x / out) + (1 - damping) / len(x)


def kept_in_place(G, x, damping):
    """The right ranks, and no second step: G has lost what it was."""
    G[:, G.sum(axis=0) == 0] = 1
    G /= G.sum(axis=0)
    return damping * G @ x + (1 - damping) / len(x)


def distinct(columns, first, last, of=np.unique):
    columns = of(columns)
    return int(((columns < first) | (columns >= last)).sum())


DENSE = lambda n, e: 4 * n * n  # noqa: E731
CSR = lambda n, e: 8 * e + 4 * (n + 1)  # noqa: E731
LEAST = lambda matrix, n, rate: (matrix + 8 * n) / rate  # noqa: E731


def latest(damping, tolerance):
    return math.ceil(math.log(tolerance / 2) / math.log(damping))


def ranked(
    source, target, nodes, damping=0.85, tolerance=1e-10, back=True, most=np.sum, turns=10**6
):
    out = np.bincount(source, minlength=nodes)
    x, change = np.full(nodes, 1 / nodes), 1.0
    while change > tolerance and turns:
        share = np.divide(x, out, out=np.zeros(nodes), where=out > 0)
        y = damping * np.bincount(target, weights=share[source], minlength=nodes)
        y += (1 - y.sum() if back else 1 - damping) / nodes
        x, change, turns = y, most(np.abs(y - x)), turns - 1
    return x


def ranked_by_scipy(source, target, nodes, damping=0.85, tolerance=1e-10):
    from scipy.sparse import csr_matrix

    out = np.bincount(source, minlength=nodes)
    links = csr_matrix((1 / out[source], (target, source)), shape=(nodes, nodes))
    x = np.full(nodes, 1 / nodes)
    while True:
        y = damping * (links @ x + x[out == 0].sum() / nodes) + (1 - damping) / nodes
        if abs(y - x).sum() <= tolerance:
            return y
        x = y


CASES = {
    "at_the_latest": Case(
        right=latest,
        wrong=[
            lambda d, t: latest(d, t) - 1,
            lambda d, t: math.floor(math.log(t / 2) / math.log(d)) + 1,
        ],
    ),
    "my_pagerank": Case(
        right=ranked,
        also=[ranked_by_scipy],
        wrong=[
            lambda *given: ranked(*given, back=False),
            # as the source iterates, whatever the change
            lambda *given: ranked(*given[:4], -1, turns=200),
            lambda *given: ranked(*given, most=np.max),  # the largest change for the sum
            lambda *given: ranked(*given, most=lambda change: np.hypot.reduce(change)),
            lambda *given: ranked(*given[:3], 0.85, given[4]),  # a damping of its own
            lambda *given: ranked(*given[:4], 1e-6),  # a tolerance of its own
            lambda s, t, n, *more: ranked(s, t, 1 + max(s.max(), t.max()), *more),
            lambda s, t, *more: (ranked(s, t, *more), s.fill(0))[0],
        ],
    ),
    "keep_the_rank": Case(
        right=kept,
        wrong=[
            *(leaking, kept_in_place),
            lambda *given: leaking(*given) / leaking(*given).sum(),
            lambda G, *given: kept(G.T, *given),
            lambda G, x, d: kept(G, x, 0.85),
        ],
    ),
    "count_bytes": Case(
        right=(DENSE, CSR, LEAST),
        also=[(DENSE, CSR, lambda m, n, rate: np.float32(m / rate) + 2 * 4 * n / rate)],
        wrong=[
            (lambda n, e: 8 * n * n, CSR, LEAST),
            (DENSE, lambda n, e: CSR(n, e) - 4, LEAST),  # N offsets, not N + 1
            (DENSE, CSR, lambda m, n, rate: (m + 4 * n) / rate),  # the new ranks do not move
            (DENSE, CSR, lambda m, n, rate: (m + 16 * n) / rate),  # 8-byte ranks
            (DENSE, CSR, lambda m, n, rate: (m + 2 * n) / rate),  # ranks, not their bytes
            (DENSE, CSR, lambda m, n, rate: LEAST(m, n, rate * 1e9)),  # takes it for GB/s
            (DENSE, CSR, lambda m, n, rate: 1e3 * LEAST(m, n, rate)),  # milliseconds
            (DENSE, CSR, lambda m, n, rate: max(m, 8 * n) / rate),
            (DENSE, CSR, lambda m, n, rate: (m + 8 * n) * rate),
        ],
        told={"of the matrix alone": (DENSE, CSR, lambda m, n, rate: m / rate)},
    ),
    "boundary": Case(
        right=distinct,
        also=[lambda c, first, last: float(len(set(c.tolist()) - set(range(first, last))))],
        wrong=[
            lambda *given: distinct(*given, of=np.sort),  # with repetitions
            lambda c, first, last: np.array([distinct(c, first, last)]),  # `f"{:>8}"` cannot
        ],
    ),
}
