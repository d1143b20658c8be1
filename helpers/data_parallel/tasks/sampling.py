"""Each worker's part of the data, alike or sorted by class, as mini-batches without end."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import torch
from torch import Tensor


def positions(count: int, batch: int, part: int, parts: int, seed: int) -> Iterator[np.ndarray]:
    """Yield, without end, the positions of one worker's mini-batches among all samples.

    Each epoch shuffles anew, the same on every worker, and cuts the order into global batches of
    parts·batch; each worker takes its part of each. So R workers with batch B together see exactly
    what one with batch R·B sees.
    """
    whole = batch * parts
    if batch < 1 or not 0 <= part < parts or whole > count:
        raise ValueError(
            f"batches of {batch} for rank {part} of {parts} do not fit {count} samples: "
            "expected batch >= 1, 0 <= rank < ranks and batch·ranks <= samples"
        )
    epoch = 0
    while True:
        order = np.random.default_rng([seed, epoch]).permutation(count)
        for begin in range(0, count - whole + 1, whole):
            yield order[begin + part * batch : begin + (part + 1) * batch]
        epoch += 1


def from_shards(
    count: int, batch: int, part: int, parts: int, shard: Callable[..., Iterable[int]]
) -> Iterator[np.ndarray]:
    """Yield, without end, one worker's mini-batches of positions that `shard` chose."""
    for epoch in itertools.count():
        mine = np.asarray([int(place) for place in shard(count, part, parts, epoch)])
        if not 1 <= batch <= len(mine):
            raise ValueError(
                f"batches of {batch} do not fit the {len(mine)} samples of rank {part} of {parts} "
                f"in epoch {epoch}"
            )
        for begin in range(0, len(mine) - batch + 1, batch):
            yield mine[begin : begin + batch]


def batches(
    inputs: np.ndarray,
    labels: np.ndarray,
    batch: int,
    part: int = 0,
    parts: int = 1,
    seed: int = 0,
    shard: Callable[..., Iterable[int]] | None = None,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield, without end, one worker's mini-batches of ``batch`` samples, of all that there are.

    Worker ``part`` of ``parts`` takes those at :func:`positions`, or in another order, ``shard``,
    as :func:`from_shards` takes it. ValueError if not even one global batch fits.
    """
    chosen = (
        positions(len(labels), batch, part, parts, seed)
        if shard is None
        else from_shards(len(labels), batch, part, parts, shard)
    )
    for where in chosen:
        yield torch.from_numpy(inputs[where]), torch.from_numpy(labels[where])


def parts(labels: np.ndarray, workers: int, sorted_share: float, seed: int = 0) -> list[np.ndarray]:
    """Deal out positions of samples, `sorted_share` of them sorted by class and cut into runs.

    With 0 every worker gets a mixture, with 1 it sees few classes. All get as many, none twice.

    >>> [part.tolist() for part in parts(np.array([1, 0, 1, 0]), 2, sorted_share=1.0)]
    [[1, 3], [0, 2]]
    """
    if not 0 <= sorted_share <= 1 or not 1 <= workers <= len(labels):
        raise ValueError(
            "parts expects a share from 0 to 1 and at least 1 worker, each with a sample; "
            f"got {sorted_share!r}, {workers!r} workers, {len(labels)} samples"
        )
    order = np.random.default_rng([seed, 11]).permutation(len(labels))
    least = len(labels) // workers
    each = round(sorted_share * least)  # of each worker's samples, how many are sorted
    by_class = np.sort(order[: each * workers])
    by_class = by_class[np.argsort(labels[by_class], kind="stable")].reshape(workers, each)
    mixed = order[each * workers : least * workers].reshape(workers, least - each)
    return [np.concatenate(pair) for pair in zip(by_class, mixed, strict=True)]
