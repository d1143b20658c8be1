"""How many lanes of a warp want the same place at once, and would have to take turns there."""

from __future__ import annotations

import numpy as np

from helpers.cuda.record import ATOMIC, AccessRecord


def turns(record: AccessRecord, *, array: str) -> int:
    """Return the turns of a launch's atomics if lanes that want one place go one after another.

    A warp's request takes as many as lanes want its most wanted place: 1 to 32. ValueError if the
    record lacks some of the single accesses of all blocks.
    """
    events = record.picked(array=array, kind=ATOMIC)
    if len(events) != record.count(array=array, kind=ATOMIC):
        raise ValueError("the record lacks single accesses: record all blocks, with a higher limit")
    if not len(events):
        return 0
    warp = events["block"].astype(np.int64) * 32 + events["thread"] // 32
    request = np.stack([events["access"], events["occurrence"], warp, events["offset"]])
    wanted, lanes = np.unique(request, axis=1, return_counts=True)
    _, number = np.unique(wanted[:3], axis=1, return_inverse=True)
    most = np.zeros(number.max() + 1, np.int64)
    np.maximum.at(most, number.ravel(), lanes)
    return int(most.sum())
