"""Which samples a worker has for itself: a mixture like everybody's, or classes of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from torch import Tensor


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


def batches(
    inputs: np.ndarray, labels: np.ndarray, mine: np.ndarray, batch: int, seed: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield, without end, mini-batches of one worker's samples, shuffled anew in each epoch."""
    if not 1 <= batch <= len(mine):
        raise ValueError(f"a batch of {batch!r} does not fit {len(mine)} samples")
    rng = np.random.default_rng([seed, 13])
    while True:
        order = rng.permutation(mine)
        for begin in range(0, len(mine) - batch + 1, batch):
            where = order[begin : begin + batch]
            yield torch.from_numpy(inputs[where]), torch.from_numpy(labels[where])
