"""Elias' omega code (1975): whole numbers from 1 on, small ones in few bits, none in between.

QSGD sends most levels as 0 when s is small against √n, and so codes the *distances* from one
nonzero to the next. Here it is counted, and can be encoded and decoded; what the schemes send are
codes of equal length, which compiled code packs faster than a network takes them.
"""

from __future__ import annotations

import numpy as np


def omega(number: int) -> str:
    """Return the code of a number."""
    if number < 1:
        raise ValueError(f"omega codes whole numbers from 1 on; got {number}")
    code = "0"
    while number > 1:
        group = f"{number:b}"
        code, number = group + code, len(group) - 1
    return code


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


def encode(levels: np.ndarray) -> str:
    """Code the levels of a bucket: for each nonzero its distance, its sign, its size."""
    where = np.flatnonzero(levels)
    steps = np.diff(where, prepend=-1)
    return "".join(
        omega(int(step)) + str(int(level < 0)) + omega(abs(int(level)))
        for step, level in zip(steps, levels[where], strict=True)
    )


def decode(code: str, n: int) -> np.ndarray:
    """Return the levels that were coded."""
    levels, at, place = np.zeros(n, np.int64), 0, -1

    def number() -> int:
        nonlocal at
        value = 1
        while code[at] == "1":
            width = value + 1
            value, at = int(code[at : at + width], 2), at + width
        at += 1
        return value

    while at < len(code):
        place += number()
        sign = -1 if code[at] == "1" else 1
        at += 1
        levels[place] = sign * number()
    return levels


def coded_bits(levels: np.ndarray) -> int:
    """Return the length of :func:`encode`'s code without making it.

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
