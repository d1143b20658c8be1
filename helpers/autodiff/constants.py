"""Operators without operands: one number in a whole shape, an array."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.autodiff.graph import Variable, apply
from helpers.autodiff.operator import Operator, Type
from helpers.autodiff.sizes import Size, shape_of


@dataclass(frozen=True)
class Full(Operator):
    """One number everywhere. It may be a size: a mean divides by one."""

    number: float | Size
    shape: tuple[int | Size, ...]
    dtype: np.dtype

    def _key(self) -> tuple:
        return repr(self.number), self.shape, self.dtype  # 0 and −0 are equal and differ

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Full) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def infer(self) -> Type:
        return Type(self.dtype, self.shape)

    def run(self, out: np.ndarray) -> None:
        out[...] = self.number

    def __str__(self) -> str:
        return f"full({self.number})"


@dataclass(frozen=True)
class Array(Operator):
    """An array that is part of the graph. Two with the same bytes are the same operator."""

    data: bytes  # the elements in C order
    shape: tuple[int, ...]
    dtype: np.dtype

    def infer(self) -> Type:
        return Type(self.dtype, self.shape)

    def run(self, out: np.ndarray) -> None:
        np.copyto(out, np.frombuffer(self.data, self.dtype).reshape(self.shape))

    def __str__(self) -> str:
        return "array"


def full(
    number: float | Size, shape: Iterable[int | str | Size] = (), dtype: Any = "float64"
) -> Variable:
    """Return one number in a whole shape.

    TypeError where the dtype does not hold it: nothing is cut off or rounded to an integer.
    """
    dtype = np.dtype(dtype)
    held = {"b": (bool, np.bool_), "i": (int, np.integer, Size), "u": (int, np.integer, Size)}
    truth = dtype.kind == "b" and isinstance(number, int) and number in (0, 1)
    if not (truth or isinstance(number, held.get(dtype.kind, object))):
        raise TypeError(f'{dtype} does not hold {number!r}: cast first, as in x.astype("float64")')
    number = number if isinstance(number, Size) else dtype.type(number).item()
    return apply(Full(number, shape_of(shape), dtype))


def full_like(x: Variable, number: float) -> Variable:
    """Return one number in the shape and dtype of a variable."""
    return full(number, x.shape, x.dtype)


def constant(value: Any) -> Variable:
    """Return a copy of an array as a variable of the graph."""
    value = np.asarray(value)
    if value.ndim == 0:
        return full(value.item(), (), value.dtype)
    return apply(Array(value.tobytes(), value.shape, value.dtype))
