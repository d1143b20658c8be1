"""Answers to the exercises of 11: right ones, and wrong ones that a reader could write."""

import itertools

import numpy as np

from helpers.pipeline import families
from tests.exercises.case import Case


def one_by_one(rank, p, m):
    warm = min(p - 1 - rank, m)
    order = [f"F{i}" for i in range(warm)]
    for i in range(m):
        if warm + i < m:
            order.append(f"F{warm + i}")
        order.append(f"B{i}")
    return order


def raises_later(rank, p, m):
    yield "F0"
    yield f"B{m // 0}"


def best(costs, p, least=max):
    """The cut with the ``least`` of the stages' sums: of the dearest, or of something else."""
    n = len(costs)
    cuts = itertools.combinations(range(1, n), p - 1)
    ways = ([b - a for a, b in itertools.pairwise((0, *cut, n))] for cut in cuts)

    def judged(counts):
        ends = list(itertools.accumulate(counts))
        return least([sum(costs[e - c : e]) for c, e in zip(counts, ends, strict=True)])

    return min(ways, key=judged)


def equal(costs, p):
    size, more = divmod(len(costs), p)
    return [size + (k < more) for k in range(p)]


def before_the_mean(costs, p):
    """Wrong: from left to right, a stage ends before its sum would pass the mean."""
    counts, total = [0], 0
    for place, cost in enumerate(costs):
        must = len(costs) - place == p - len(counts)  # a layer for each stage that is left
        if counts[-1] and len(counts) < p and (must or total + cost > sum(costs) / p):
            counts, total = [*counts, 0], 0
        counts[-1], total = counts[-1] + 1, total + cost
    return counts


def lines(make, **more):
    def answer(p, m, room):
        return [[str(action) for action in order] for order in make(p, m, **more).orders]

    return answer


def ahead(times, more, put_off):
    """Send ahead `times` micro-batches for each rank after this one, and put W off."""

    def answer(p, m, room):
        orders = []
        for rank in range(p):
            warm = min(times * (p - 1 - rank) + more, room - 1, m)
            order, late = [f"F{i}" for i in range(warm)], []
            for i in range(m):
                order += [f"F{warm + i}"] * (warm + i < m) + [f"I{i}"]
                late.append(f"W{i}")
                while len(late) > min(rank if put_off else 0, room - 1 - warm):
                    order.append(late.pop(0))
            orders.append(order + late)
        return orders

    return answer


right_schedule = ahead(2, 0, True)


def late_ones_backwards(p, m, room):
    """Right: where a rank ends with two W's, they change places."""
    made = right_schedule(p, m, room)
    return [o[:-2] + (o[:-3:-1] if o[-2][0] == "W" else o[-2:]) for o in made]


CASES = {
    "idle_share": Case(
        right=lambda p, m: (p - 1) / (m + p - 1),
        also=[lambda p, m: 1 - m / (m + p - 1)],
        wrong=[
            lambda p, m: (p - 1) / m,
            lambda p, m: str((p - 1) / (m + p - 1)),
        ],
    ),
    "one_by_one": Case(
        right=one_by_one,
        also=[lambda *a: " ".join(one_by_one(*a)), lambda *a: iter(one_by_one(*a))],
        wrong=[
            lambda rank, p, m: [f"F{i}" for i in range(m)] + [f"B{i}" for i in range(m)],
            lambda rank, p, m: one_by_one(rank, p, m)[:-1],
            lambda rank, p, m: one_by_one(p - 1 - rank, p, m),
            *(lambda rank, p, m: list(range(m)), raises_later),
        ],
    ),
    "kept_at_most": Case(
        right=lambda rank, p, m: min(m, p - rank),
        wrong=[
            lambda rank, p, m: m,
            lambda rank, p, m: p - rank,
            lambda rank, p, m: min(m, p - rank - 1),
        ],
    ),
    "balance": Case(
        right=best,
        also=[
            lambda costs, p: np.array(best(costs, p)),
            lambda costs, p: [float(n) for n in best(costs, p)],
        ],
        wrong=[
            equal,
            lambda costs, p: best(costs, p, least=lambda sums: max(sums) - min(sums)),
            *(before_the_mean, lambda costs, p: 3),
        ],
    ),
    "own_schedule": Case(
        right=right_schedule,
        also=[late_ones_backwards, lambda *a: (" ".join(order) for order in right_schedule(*a))],
        wrong=[
            *(lines(make) for make in families.FAMILIES.values()),
            *(ahead(1, 2, True), ahead(2, 0, False)),  # the second is one forward pass too long
            lambda p, m, room: right_schedule(
                *min((4, 8, 6), (3, 6, 4), (2, 4, 3), key=lambda known: known != (p, m, room))
            ),
            lambda *a: right_schedule(*a)[::-1],  # stuck
            lambda p, m, room: list(range(p)),
            lambda p, m, room: dict(enumerate(right_schedule(p, m, room))),
        ],
    ),
}
