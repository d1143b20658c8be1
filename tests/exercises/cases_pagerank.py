"""Right and wrong answers to the exercises of notebook 06."""

import math
import time
import timeit
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


def kept_in_place(G, x, damping):
    """The right ranks, and no second step: G has lost what it was."""
    G[:, G.sum(axis=0) == 0] = 1
    G /= G.sum(axis=0)
    return damping * G @ x + (1 - damping) / len(x)


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


def best_time_in_nanoseconds(call, wait, repeats=3):
    call()
    times = []
    for _ in range(repeats):
        wait()
        begin = time.perf_counter_ns()
        call()
        wait()
        times.append((time.perf_counter_ns() - begin) / 1e9)
    return min(times)


def best_time_by_timeit(call, wait, repeats=3):
    call()
    times = []
    for _ in range(repeats):
        wait()
        begin = timeit.default_timer()
        call()
        wait()
        times.append(timeit.default_timer() - begin)
    return min(times)


def best_time_by_repeat(call, wait, repeats=3):
    call()
    wait()
    return min(timeit.repeat(lambda: (call(), wait()), number=1, repeat=repeats))


def best_time_with_a_clock_of_its_own(call, wait, repeats=3, clock=time.perf_counter):
    call()
    times = []
    for _ in range(repeats):
        wait()
        begin = clock()
        call()
        wait()
        times.append(clock() - begin)
    return min(times)


def last_time(call, wait, repeats=3):
    call()
    for _ in range(repeats):
        wait()
        begin = time.perf_counter()
        call()
        wait()
        spent = time.perf_counter() - begin
    return spent


def mean_time(call, wait, repeats=3):
    call()
    wait()
    begin = time.perf_counter()
    for _ in range(repeats):
        call()
    wait()
    return (time.perf_counter() - begin) / repeats


def times_in_turn(call, wait, repeats=3):
    call()
    times = []
    for _ in range(repeats):
        wait()
        begin = time.perf_counter()
        call()
        wait()
        times.append(time.perf_counter() - begin)
    return times


def swept_before_reading(x, into, out, order, damping):
    """Wrong where a node links to itself."""
    change = 0.0
    for i in order:
        old, x[i] = x[i], (1 - damping) / len(x)
        x[i] += damping * sum(x[j] / out[j] for j in into[i])
        change += abs(x[i] - old)
    return change


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


def ranked(
    source, target, nodes, damping=0.85, tolerance=1e-10, back=True, by="source", most=np.sum
):
    out = np.bincount(source if by == "source" else target, minlength=nodes)
    x, change = np.full(nodes, 1 / nodes), 1.0
    while change > tolerance:
        share = np.divide(x, out, out=np.zeros(nodes), where=out > 0)
        y = damping * np.bincount(target, weights=share[source], minlength=nodes)
        y += (1 - y.sum() if back else 1 - damping) / nodes
        x, change = y, most(np.abs(y - x))
    return x


def ranked_200_times(source, target, nodes, damping=0.85, tolerance=1e-10):
    """As the source iterates, whatever the change."""
    out, x = np.bincount(source, minlength=nodes), np.full(nodes, 1 / nodes)
    for _ in range(200):
        share = np.divide(x, out, out=np.zeros(nodes), where=out > 0)
        x = damping * np.bincount(target, weights=share[source], minlength=nodes)
        x += (1 - x.sum()) / nodes
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


def ranked_dense(source, target, nodes, damping=0.85, tolerance=1e-10):
    G = np.zeros((nodes, nodes))
    G[target, source] = 1
    return G.sum(axis=1)


def swept(x, into, out, order, damping, size=None, absolute=abs):
    change = 0.0
    for i in order:
        new = (1 - damping) / (size or len(x)) + damping * sum(x[j] / out[j] for j in into[i])
        change += absolute(new - x[i])
        x[i] = new
    return change


def swept_with_numpy(x, into, out, order, damping):
    out, before = np.maximum(out, 1), np.array(x)
    for i in order:
        j = np.array(into[i], dtype=int)
        x[i] = (1 - damping) / len(x) + damping * (np.array(x)[j] / out[j]).sum()
    return np.abs(np.array(x) - before).sum()


def swept_at_the_end(x, into, out, order, damping):
    """A power iteration: nobody reads a new value."""
    new = list(x)
    for i in order:
        new[i] = (1 - damping) / len(x) + damping * sum(x[j] / out[j] for j in into[i])
    change = sum(abs(a - b) for a, b in zip(x, new, strict=True))
    x[:] = new
    return change


def swept_in_a_copy(x, *rest):
    return swept(list(x), *rest)


def swept_by_number(x, into, out, order, damping):
    return swept(x, into, out, sorted(order), damping)


def swept_all(x, into, out, order, damping):
    rest = [i for i in range(len(x)) if i not in order]
    return swept(x, into, out, [*order, *rest], damping)


def swept_out_of_links(x, into, out, order, damping):
    """Each share divided by the links of the one who receives."""
    change = 0.0
    for i in order:
        new = (1 - damping) / len(x) + damping * sum(x[j] for j in into[i]) / max(out[i], 1)
        change += abs(new - x[i])
        x[i] = new
    return change


def swept_and_said_nothing(*given):
    swept(*given)


def swept_and_returned(*given):
    swept(*given)
    return given[0]


CASES = {
    "sweep": Case(
        right=swept,
        also=[swept_with_numpy],
        wrong=[
            swept_at_the_end,
            swept_before_reading,
            swept_in_a_copy,
            swept_by_number,
            swept_all,
            swept_out_of_links,
            *(swept_and_returned, swept_and_said_nothing),
            lambda *given: swept(*given, size=len(given[3])),  # the nodes visited for N
            lambda *given: swept(*given, absolute=lambda value: value),
            lambda *given: max(swept(*given[:3], [i], given[4]) for i in given[3]),
        ],
    ),
    "timed": Case(
        right=best_time,
        also=[
            *(best_time_by_another_name, best_time_in_nanoseconds, best_time_by_timeit),
            *(best_time_by_repeat, best_time_with_a_clock_of_its_own),
            lambda *given: np.array(min(times_in_turn(*given))),
        ],
        wrong=[
            *(last_time, mean_time, lambda call, wait, repeats: best_time(call, wait, 3)),
            lambda *given: sorted(times_in_turn(*given))[given[2] // 2],  # the median
            lambda *given: times_in_turn(*given)[0],
            lambda *given: max(times_in_turn(*given)),
            unsynchronised,
            not_waiting_first,
            no_warm_up,
            lambda call, wait, repeats: 0.0,
        ],
    ),
    "at_the_latest": Case(
        right=latest,
        wrong=[
            lambda d, t: latest(d, t) - 1,
            lambda d, t: math.floor(math.log(t / 2) / math.log(d)) + 1,
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
        also=[ranked_by_scipy],
        wrong=[
            lambda *given: ranked(*given, back=False),
            lambda *given: (lambda x: x / x.sum())(ranked(*given, by="target")),
            lambda *given: ranked(given[1], given[0], *given[2:]),
            *(ranked_dense, ranked_200_times),
            lambda *given: ranked(*given, most=np.max),  # the largest change for the sum
            lambda *given: ranked(*given[:3], 0.85, given[4]),  # a damping of its own
            lambda *given: ranked(*given[:4], 1e-6),  # a tolerance of its own
            lambda s, t, n, *more: ranked(s, t, 1 + max(s.max(), t.max()), *more),
            lambda s, t, *more: (ranked(s, t, *more), s.fill(0))[0],
        ],
    ),
    "keep_the_rank": Case(
        right=kept,
        wrong=[
            *(leaking, rescaled, rows_for_columns, kept_in_place),
            lambda G, x, d: kept(G, x, 0.85),
            lambda G, x, d: kept(G, x, d)[:, None],
        ],
    ),
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
        also=[lambda c, first, last: float(len(set(c.tolist()) - set(range(first, last))))],
        wrong=[
            *(with_repetitions, lambda c, first, last: len(np.unique(c))),
            lambda c, first, last: np.array([distinct(c, first, last)]),  # `f"{:>8}"` cannot
            lambda c, first, last: distinct(c, first, last + 1),
        ],
    ),
}
