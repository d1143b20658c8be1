"""Right and wrong answers to the exercises of notebook 06."""

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


def rescaled(G, x, damping):
    y = leaking(G, x, damping)
    return y / y.sum()


def rows_for_columns(G, x, damping):
    return kept(G.T, x, damping)


def distinct(columns, first, last):
    columns = np.unique(columns)
    return int(((columns < first) | (columns >= last)).sum())


def with_repetitions(columns, first, last):
    return int(((columns < first) | (columns >= last)).sum())


DENSE = lambda n, e: 4 * n * n  # noqa: E731
CSR = lambda n, e: 8 * e + 4 * (n + 1)  # noqa: E731
BITS = lambda n, e: n * n // 8  # noqa: E731

CASES = {
    "keep_the_rank": Case(right=kept, wrong=[leaking, rescaled, rows_for_columns]),
    "count_bytes": Case(
        right=(DENSE, CSR, BITS),
        wrong=[
            (DENSE, lambda n, e: 8 * e, BITS),
            (lambda n, e: 8 * n * n, CSR, BITS),
            (DENSE, CSR, lambda n, e: n * n),
        ],
    ),
    "boundary": Case(
        right=distinct,
        wrong=[with_repetitions, lambda c, first, last: len(np.unique(c))],
    ),
}
