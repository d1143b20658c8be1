"""Right and wrong answers to the exercises of notebook 06."""

import math
import time
from time import perf_counter

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


def best_time(call, wait, repeats=3):
    call()
    times = []
    for _ in range(repeats):
        wait()
        begin = time.perf_counter()
        call()
        wait()
        times.append(time.perf_counter() - begin)
    return min(times)


def best_time_by_another_name(call, wait, repeats=3):
    call()
    best = float("inf")
    for _ in range(repeats):
        wait()
        begin = perf_counter()
        call()
        wait()
        best = min(best, perf_counter() - begin)
    return best


def unsynchronised(call, wait, repeats=3):
    call()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def not_waiting_first(call, wait, repeats=3):
    call()
    begin = time.perf_counter()
    for _ in range(repeats):
        call()
        wait()
    return (time.perf_counter() - begin) / repeats


def no_warm_up(call, wait, repeats=3):
    wait()
    begin = time.perf_counter()
    for _ in range(repeats):
        call()
        wait()
    return (time.perf_counter() - begin) / repeats


def latest(damping, tolerance):
    return math.ceil(math.log(tolerance / 2) / math.log(damping))


def ranked(source, target, nodes, damping=0.85, tolerance=1e-10, back=True, by="source"):
    out = np.bincount(source if by == "source" else target, minlength=nodes)
    x, change = np.full(nodes, 1 / nodes), 1.0
    while change > tolerance:
        share = np.divide(x, out, out=np.zeros(nodes), where=out > 0)
        y = damping * np.bincount(target, weights=share[source], minlength=nodes)
        y += (1 - y.sum() if back else 1 - damping) / nodes
        x, change = y, np.abs(y - x).sum()
    return x


def ranked_dense(source, target, nodes, damping=0.85, tolerance=1e-10):
    G = np.zeros((nodes, nodes))
    G[target, source] = 1
    return G.sum(axis=1)


CASES = {
    "timed": Case(
        right=best_time,
        also=[best_time_by_another_name],
        wrong=[unsynchronised, not_waiting_first, no_warm_up, lambda call, wait, repeats: 0.0],
    ),
    "at_the_latest": Case(
        right=latest,
        wrong=[
            lambda d, t: latest(d, t) - 1,
            lambda d, t: math.ceil(math.log(t) / math.log(d)),
            lambda d, t: math.log(t / 2) / math.log(d) + 1,
        ],
    ),
    "largest_dense": Case(
        right=lambda memory, bits: math.isqrt(8 * memory // bits),
        also=[lambda memory, bits: int((8 * memory / bits) ** 0.5)],
        wrong=[
            lambda memory, bits: math.isqrt(memory // bits),
            lambda memory, bits: 8 * memory // bits,
            lambda memory, bits: math.isqrt(8 * memory // bits) + 1,
        ],
    ),
    "my_pagerank": Case(
        right=ranked,
        wrong=[
            lambda *given: ranked(*given, back=False),
            lambda *given: (lambda x: x / x.sum())(ranked(*given, by="target")),
            lambda *given: ranked(given[1], given[0], *given[2:]),
            ranked_dense,
        ],
    ),
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
