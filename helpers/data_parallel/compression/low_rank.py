"""PowerSGD's arithmetic (Vogels, Karimireddy, Jaggi, 2019): a matrix as two thin ones.

One step of the power method from the last step's Q: P = M Q, its columns made orthonormal,
Q = Mᵀ P; then M ≈ P Qᵀ. Both products are linear in M, so the mean over ranks commutes with them:
they can be sent by an ordinary allreduce.
"""

from __future__ import annotations

import numpy as np


def orthonormal(p: np.ndarray) -> np.ndarray:
    """Return columns made orthonormal by Gram and Schmidt; a column that vanishes stays 0."""
    found = np.array(p, copy=True)
    for column in range(found.shape[1]):
        before = found[:, :column]
        for _ in range(2):  # twice is enough (Kahan; Parlett 1980, 6.9)
            found[:, column] -= before @ (before.T @ found[:, column])
        length = np.linalg.norm(found[:, column])
        small = length <= 1e-6 * np.linalg.norm(p[:, column])
        found[:, column] = 0 if small else found[:, column] / length
    return found


def shape_of(shape: tuple[int, ...], rank: int) -> tuple[int, int] | None:
    """Return the (m, k) as which a parameter is compressed; None if r(m + k) ≥ m·k numbers."""
    if len(shape) < 2:
        return None
    m, k = shape[0], int(np.prod(shape[1:]))
    return (m, k) if rank * (m + k) < m * k else None


def numbers(shapes: list[tuple[int, ...]], rank: int) -> int:
    """Count the numbers of one step's two allreduces; whole parameters count all their elements."""
    total = 0
    for shape in shapes:
        matrix = shape_of(shape, rank)
        total += rank * sum(matrix) if matrix else int(np.prod(shape))
    return total
