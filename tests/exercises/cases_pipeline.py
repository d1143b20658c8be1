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


def as_text(rank, p, m):
    """Right: one string, forward passes as early as the memory allows."""
    return " ".join(one_by_one(rank, p, m))


def all_forward(rank, p, m):
    return [f"F{i}" for i in range(m)] + [f"B{i}" for i in range(m)]


def no_warm_up(rank, p, m):
    return [text for i in range(m) for text in (f"F{i}", f"B{i}")]


def one_too_few(rank, p, m):
    return one_by_one(rank, p, m)[:-1]


def wrong_way_round(rank, p, m):
    return one_by_one(p - 1 - rank, p, m)


def no_actions(rank, p, m):
    return list(range(m))


def best(costs, p):
    n = len(costs)
    cuts = itertools.combinations(range(1, n), p - 1)
    ways = ([b - a for a, b in itertools.pairwise((0, *cut, n))] for cut in cuts)

    def dearest(counts):
        ends = list(itertools.accumulate(counts))
        return max(sum(costs[e - c : e]) for c, e in zip(counts, ends, strict=True))

    return min(ways, key=dearest)


def equal(costs, p):
    size, more = divmod(len(costs), p)
    return [size + (k < more) for k in range(p)]


def most_even(costs, p):
    """Wrong: the least difference between the dearest stage and the cheapest."""
    n = len(costs)
    cuts = itertools.combinations(range(1, n), p - 1)
    ways = ([b - a for a, b in itertools.pairwise((0, *cut, n))] for cut in cuts)

    def spread(counts):
        ends = list(itertools.accumulate(counts))
        sums = [sum(costs[e - c : e]) for c, e in zip(counts, ends, strict=True)]
        return max(sums) - min(sums)

    return min(ways, key=spread)


def lines(make, **more):
    def answer(p, m):
        return [[str(action) for action in order] for order in make(p, m, **more).orders]

    return answer


def each_cut_in_two(p, m):
    orders = lines(families.one_f_one_b)(p, m)
    return [
        [one for a in order for one in ([a] if a[0] == "F" else [f"I{a[1:]}", f"W{a[1:]}"])]
        for order in orders
    ]


def stuck(p, m):
    made = lines(families.one_f_one_b)(p, m)
    return made[::-1]


def forgets(p, m):
    made = lines(families.zero_bubble)(p, m)
    made[0] = [text for text in made[0] if text != "W1"]
    return made


CASES = {
    "idle_share": Case(
        right=lambda p, m: (p - 1) / (m + p - 1),
        also=[lambda p, m: 1 - m / (m + p - 1)],
        wrong=[
            lambda p, m: (p - 1) / m,
            lambda p, m: (p - 1) / (m + p),
            lambda p, m: str((p - 1) / (m + p - 1)),
            lambda p, m: 1 / p,
        ],
    ),
    "one_by_one": Case(
        right=one_by_one,
        also=[as_text, lambda *a: iter(one_by_one(*a)), lambda *a: np.array(one_by_one(*a))],
        wrong=[all_forward, no_warm_up, one_too_few, wrong_way_round, no_actions],
    ),
    "kept_at_most": Case(
        right=lambda rank, p, m: min(m, p - rank),
        wrong=[
            lambda rank, p, m: m,
            lambda rank, p, m: p - rank,
            lambda rank, p, m: min(m, p - rank - 1),
            lambda rank, p, m: min(m, p),
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
            most_even,
            lambda costs, p: [1] * (p - 1) + [len(costs) - p + 1],
            lambda costs, p: [len(costs) // p] * p,
            lambda costs, p: 3,
        ],
    ),
    "staleness": Case(
        right=lambda rank, p: p - 1 - rank,
        also=[lambda rank, p: float(p - rank - 1), lambda rank, p: np.array(p - rank - 1)],
        wrong=[lambda rank, p: p - rank, lambda rank, p: rank, lambda rank, p: p - 1],
    ),
    "own_schedule": Case(
        right=lines(families.zero_bubble),
        also=[lines(families.interleaved)],
        wrong=[lines(families.gpipe), each_cut_in_two, lines(families.one_f_one_b), stuck, forgets,
               lambda p, m: 7, lines(families.pipedream)],
    ),
}  # fmt: skip
