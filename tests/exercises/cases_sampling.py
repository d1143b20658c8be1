"""Answers to notebook 02's exercise on the data of a rank."""

import itertools
from collections import defaultdict

import numpy as np

from tests.exercises.case import Case

ASKED = defaultdict(itertools.count)


def permuted(seed, count):
    return np.random.default_rng(seed).permutation(count)


def strided(count, rank, size, seed, order=None):
    order = permuted(seed, count) if order is None else order
    return order[rank::size][: count // size]


def in_blocks(count, rank, size, epoch):
    each, order = count // size, permuted([7, epoch], count)
    return order[rank * each : (rank + 1) * each]


def by_torch(count, rank, size, epoch):
    import torch

    order = torch.randperm(count, generator=torch.Generator().manual_seed(epoch))
    return order[: count // size * size].view(-1, size)[:, rank]


def hardly_shuffled(count, rank, size, epoch):
    """Begin one order elsewhere in each epoch, and swap two samples."""
    order, other = np.roll(np.arange(count), epoch), 1 + epoch % 3
    order[[0, other]] = order[[other, 0]]
    return strided(count, rank, size, epoch, order)


CASES = {
    "shard": Case(
        right=strided,
        also=[in_blocks, by_torch],
        wrong=[
            lambda count, rank, size, epoch: permuted(epoch, count)[: count // size],  # all alike
            # another order each time that all were asked, as of one generator without a seed
            lambda count, *at: strided(count, *at[:2], next(ASKED[count, at[1]]) // at[1]),
            lambda count, rank, size, epoch: strided(count, rank, size, 0),
            lambda count, rank, size, epoch: strided(count, rank, size, epoch % 5),
            lambda count, *at: strided(count, *at, np.roll(np.arange(count), at[-1])),
            hardly_shuffled,
            # shuffled within a part that stays
            lambda count, *at: permuted(at[-1], strided(count, *at, np.arange(count))),
            lambda count, rank, size, epoch: permuted(epoch, count)[rank::size],  # and the rest
            lambda count, rank, size, epoch: permuted(epoch, count // size * size)[rank::size],
            lambda count, rank, size, epoch: strided(count, rank, size, epoch) + 1,
        ],
    )
}
