"""Rows by number: take them, and add to them. Each is the gradient of the other.

An embedding is a ``gather`` from its table; the gradient of the table adds up, at each row, what
arrives from every place that used it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.autodiff.constants import arange
from helpers.autodiff.elementwise import cast, equal
from helpers.autodiff.graph import Variable, apply
from helpers.autodiff.operator import Operator, Type
from helpers.autodiff.shaping import reshape
from helpers.autodiff.sizes import Size, shape_of


@dataclass(frozen=True)
class Gather(Operator):
    """``out[i, j, ...] = x[rows[i, j], ...]``."""

    def infer(self, x: Type, rows: Type) -> Type:
        if rows.dtype.kind not in "iu" or not x.shape:
            raise TypeError(f"gather expects rows and whole numbers; got {x} and {rows}")
        return Type(x.dtype, (*rows.shape, *x.shape[1:]))

    def run(self, out: np.ndarray, x: np.ndarray, rows: np.ndarray) -> None:
        np.take(x, rows, axis=0, out=out)

    def gradient(
        self, g: Variable, y: Variable, x: Variable, rows: Variable
    ) -> Sequence[Variable | None]:
        return [apply(ScatterAdd(x.shape[0]), g, rows), None]


@dataclass(frozen=True)
class ScatterAdd(Operator):
    """Zeros, then ``out[rows[i, j], ...] += x[i, j, ...]`` for each i, j.

    Parameters
    ----------
    size : int or Size
        How many rows the result has.
    """

    size: int | Size

    def infer(self, x: Type, rows: Type) -> Type:
        rank = len(rows.shape)
        if rows.dtype.kind not in "iu" or x.shape[:rank] != rows.shape:
            raise ValueError(f"scatter_add expects a row for each number; got {x} and {rows}")
        return Type(x.dtype, (self.size, *x.shape[rank:]))

    def run(self, out: np.ndarray, x: np.ndarray, rows: np.ndarray) -> None:
        out[...] = 0
        np.add.at(out, rows, x)

    def gradient(
        self, g: Variable, y: Variable, x: Variable, rows: Variable
    ) -> Sequence[Variable | None]:
        return [apply(Gather(), g, rows), None]


def gather(x: Variable, rows: Variable) -> Variable:
    """Take rows by number.

    Parameters
    ----------
    x : Variable (n, ...)
        A table.
    rows : Variable (i, j, ...)
        Whole numbers, −n to n − 1.

    Returns
    -------
    Variable (i, j, ..., ...)
        ``x[rows]``.
    """
    return apply(Gather(), x, rows)


def scatter_add(x: Variable, rows: Variable, size: int | str | Size) -> Variable:
    """Add up rows by number.

    Parameters
    ----------
    x : Variable (i, j, ..., ...)
        What is added.
    rows : Variable (i, j, ...)
        To which row.
    size : int, str or Size
        How many rows there are.

    Returns
    -------
    Variable (size, ...)
        The sums; zero where nothing was added.
    """
    return apply(ScatterAdd(*shape_of((size,))), x, rows)


def one_hot(labels: Variable, classes: int | str | Size, dtype: Any = "float64") -> Variable:
    """Put a 1 at each label and 0 elsewhere.

    Parameters
    ----------
    labels : Variable (...)
        int64, 0 to classes − 1.
    classes : int, str or Size
        How many.
    dtype : str or numpy.dtype
        Of the result.

    Returns
    -------
    Variable (..., classes)
        One row for each label.
    """
    return cast(equal(reshape(labels, (*labels.shape, 1)), arange(classes)), dtype)
