"""PowerSGD's arithmetic (Vogels, Karimireddy, Jaggi, 2019): a matrix as two thin ones.

One step of the power method from the last step's Q: P = M Q, its columns made orthonormal,
Q = Mᵀ P; then M ≈ P Qᵀ. Both products are linear in M, so the mean over ranks commutes with them:
they can be sent by an ordinary allreduce.
"""

from __future__ import annotations

import numpy as np


def orthonormal(p: np.ndarray) -> np.ndarray:
    """Make columns orthonormal by Gram and Schmidt; a column that vanishes stays 0.

    Parameters
    ----------
    p : numpy.ndarray (m, r)
        Not changed.

    Returns
    -------
    numpy.ndarray (m, r)
        Spanning the same space.
    """
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
    """Tell as which matrix a parameter is compressed.

    Parameters
    ----------
    shape : tuple of int
        Of the parameter.
    rank : int
        r, columns of P and Q.

    Returns
    -------
    tuple of int or None
        (m, k): the first dimension, and all others together; None where r(m + k) numbers would be
        no fewer than m·k.
    """
    if len(shape) < 2:
        return None
    m, k = shape[0], int(np.prod(shape[1:]))
    return (m, k) if rank * (m + k) < m * k else None


def numbers(shapes: list[tuple[int, ...]], rank: int) -> int:
    """Count the numbers of one step's two allreduces.

    Parameters
    ----------
    shapes : list of tuple of int
        Of all parameters.
    rank : int
        r.

    Returns
    -------
    int
        r(m + k) for each matrix that is compressed, all its elements for any other parameter.
    """
    total = 0
    for shape in shapes:
        matrix = shape_of(shape, rank)
        total += rank * sum(matrix) if matrix else int(np.prod(shape))
    return total
