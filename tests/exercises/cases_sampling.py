"""Answers to notebook 02's exercise on the data of a rank."""

import numpy as np

from tests.exercises.case import Case


def strided(count, rank, size, epoch):
    order = np.random.default_rng(epoch).permutation(count)
    return order[rank : count - count % size : size]


def in_blocks(count, rank, size, epoch):
    each = count // size
    return np.random.default_rng([7, epoch]).permutation(count)[rank * each : (rank + 1) * each]


def as_a_list(count, rank, size, epoch):
    import random

    order = list(range(count))
    random.Random(epoch).shuffle(order)
    return order[rank::size][: count // size]


def by_torch(count, rank, size, epoch):
    import torch

    order = torch.randperm(count, generator=torch.Generator().manual_seed(epoch))
    return order[: count // size * size].view(-1, size)[:, rank]


def with_a_global_seed(count, rank, size, epoch):
    np.random.seed(epoch)
    return np.random.permutation(count)[rank::size][: count // size]


def everything(count, rank, size, epoch):
    return np.random.default_rng(epoch).permutation(count)[: count // size]


def seeded_by_rank(count, rank, size, epoch):
    return np.random.default_rng([epoch, rank]).permutation(count)[rank::size][: count // size]


def without_a_seed(count, rank, size, epoch):
    return np.random.default_rng().permutation(count)[rank::size][: count // size]


def forgets_the_epoch(count, rank, size, epoch):
    return np.random.default_rng(0).permutation(count)[rank::size][: count // size]


def five_orders_in_turn(count, rank, size, epoch):
    return np.random.default_rng(epoch % 5).permutation(count)[rank::size][: count // size]


def never_shuffled(count, rank, size, epoch):
    return np.roll(np.arange(count), epoch)[rank::size][: count // size]


def shuffled_once(count, rank, size, epoch):
    order = np.roll(np.random.default_rng(0).permutation(count), -epoch)
    return order[rank::size][: count // size]


def shuffled_once_in_blocks(count, rank, size, epoch):
    each, order = count // size, np.random.default_rng(0).permutation(count)
    return np.roll(order, epoch)[rank * each : (rank + 1) * each]


def two_orders_in_turn(count, rank, size, epoch):
    return strided(count, rank, size, epoch % 2)


def new_in_the_first_epoch_only(count, rank, size, epoch):
    return strided(count, rank, size, 0 if epoch == 0 else 1)


def shuffled_within_a_fixed_part(count, rank, size, epoch):
    mine = np.arange(count)[rank::size][: count // size]
    return np.random.default_rng(epoch).permutation(mine)


def keeps_the_remainder(count, rank, size, epoch):
    return np.random.default_rng(epoch).permutation(count)[rank::size]


def always_drops_the_same(count, rank, size, epoch):
    return np.random.default_rng(epoch).permutation(count // size * size)[rank::size]


CASES = {
    "shard": Case(
        right=strided,
        also=[in_blocks, as_a_list, by_torch, with_a_global_seed],
        wrong=[
            everything,
            seeded_by_rank,
            without_a_seed,
            forgets_the_epoch,
            five_orders_in_turn,
            never_shuffled,
            shuffled_once,
            shuffled_once_in_blocks,
            two_orders_in_turn,
            new_in_the_first_epoch_only,
            shuffled_within_a_fixed_part,
            keeps_the_remainder,
            always_drops_the_same,
            lambda count, rank, size, epoch: count,
            lambda count, rank, size, epoch: strided(count, rank, size, epoch) + 1,
        ],
    )
}
