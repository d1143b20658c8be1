"""Answers to the exercises of notebook 00."""

from fractions import Fraction

import numpy as np

from helpers.machine import usable_cores
from tests.exercises.case import Case


def even(items, ranks):
    return [items // ranks + (rank < items % ranks) for rank in range(ranks)]


def forgetful(items, ranks):
    return [items // ranks] * ranks


def rest_to_the_last(items, ranks):
    return [items // ranks] * (ranks - 1) + [items // ranks + items % ranks]


def rest_to_both_ends(items, ranks):
    """Even while two items at most are left over."""
    each, left_over = divmod(items, ranks)
    parts = [each] * ranks
    parts[0] += left_over // 2
    parts[-1] += left_over - left_over // 2
    return parts


def cut_by_borders(items, ranks):
    """Right, as a tuple, with the larger shares anywhere."""
    return tuple(items * (r + 1) // ranks - items * r // ranks for r in range(ranks))


CASES = {
    "at_least": Case(
        right=lambda ranks, cores, alone: max(alone, ranks * alone / cores),
        also=[lambda ranks, cores, alone: ranks * alone / min(ranks, cores)],
        wrong=[
            lambda ranks, cores, alone: ranks * alone / cores,
            lambda ranks, cores, alone: -(-ranks // cores) * alone,
            lambda ranks, cores, alone: max(1, ranks / cores),
            lambda ranks, cores, alone: "twice",
        ],
    ),
    "cores": Case(
        right=usable_cores(),
        also=[np.int64(usable_cores())],
        wrong=[usable_cores() + 1, 0, "two", True, usable_cores() + 0.5],
    ),
    "shares": Case(
        right=even,
        wrong=[
            *(forgetful, rest_to_the_last, rest_to_both_ends, lambda items, ranks: "even"),
        ],
        also=[cut_by_borders, lambda items, ranks: [float(n) for n in even(items, ranks)]],
    ),
    "squares": Case(
        right=[0.0, 1 / 14, 4 / 14, 9 / 14],
        also=[[0, Fraction(1, 14), np.float64(4 / 14), np.array(9 / 14)]],
        wrong=[
            *([0, 1, 4, 9], [14] * 4, [0.25] * 4, [0, 1 / 36, 4 / 36, 9 / 36], 9),
            *([0, 1 / 6, 2 / 6, 3 / 6], [0, 1 / 14, 4 / 14, None], [1, 0, 0, 0]),
        ],
    ),
}
