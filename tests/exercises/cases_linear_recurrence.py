"""Answers to the scan of 03: right ones, and wrong ones of a reader."""

import torch

from tests.exercises.case import Case


def doubling(a, b, rounds=1):
    """With ``rounds`` of 2 the last one is missing."""
    k = 1
    while rounds * k < len(a):
        b = torch.cat([b[:k], a[k:] * b[:-k] + b[k:]])
        a = torch.cat([a[:k], a[k:] * a[:-k]])
        k *= 2
    return b


def shifted(a, b):
    """Right: shifted copies, with the neutral step (1, 0) before the beginning."""
    k = 1
    while k < len(a):
        before_a, before_b = torch.ones_like(a), torch.zeros_like(b)
        before_a[k:], before_b[k:] = a[:-k], b[:-k]
        a, b = a * before_a, a * before_b + b
        k *= 2
    return b


def one_after_the_other(a, b):
    h, out = torch.zeros_like(b[0]), []
    for a_t, b_t in zip(a, b, strict=True):
        h = a_t * h + b_t
        out.append(h)
    return torch.stack(out)


def in_place(a, b):
    k = 1
    while k < len(a):
        b[k:] = a[k:] * b[:-k] + b[k:]
        a[k:] = a[k:] * a[:-k]
        k *= 2
    return b


def by_division(a, b):
    product = a.cumprod(0)
    return product * (b / product).cumsum(0)


CASES = {
    "parallel_scan": Case(
        right=doubling,
        also=[shifted],
        wrong=[
            *(one_after_the_other, in_place, lambda a, b: doubling(a, b, rounds=2)),
            *(by_division, lambda a, b: doubling(a, b)[-1]),
        ],
    ),
}
