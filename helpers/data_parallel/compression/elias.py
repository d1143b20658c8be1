"""Elias' omega code (1975): whole numbers from 1 on, small ones in few bits, none in between.

QSGD sends most levels as 0 when s is small against √n, and so codes the *distances* from one
nonzero to the next. Here they are counted; what the schemes send are codes of equal length, which
compiled code packs faster than a network takes them.
"""

from __future__ import annotations

import numpy as np


def bits(numbers: np.ndarray) -> np.ndarray:
    """Return the length in bits of each number's code; numbers are 1 or more."""
    left = np.array(numbers, np.int64)
    if left.size and left.min() < 1:
        raise ValueError(f"omega codes whole numbers from 1 on; got {left.min()}")
    total = np.ones_like(left)
    while (left > 1).any():
        width = np.where(left > 1, np.floor(np.log2(np.maximum(left, 1))).astype(np.int64) + 1, 0)
        total += width
        left = np.where(left > 1, width - 1, 1)
    return total


def coded_bits(levels: np.ndarray) -> int:
    """Return the length of a bucket's code: for each nonzero its distance, its sign, its size.

    Parameters
    ----------
    levels : numpy.ndarray (n,) of int
        −s to s.

    Returns
    -------
    int
        In bits, without the norm.
    """
    where = np.flatnonzero(levels)
    return int(
        bits(np.diff(where, prepend=-1)).sum() + len(where) + bits(np.abs(levels[where])).sum()
    )
