"""The same elements in the same order, or the axes in another one: nothing is computed.

``Reshape`` has as its gradient the ``Reshape`` to the operand's shape, ``Transpose`` that by the
inverse permutation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from helpers.autodiff.graph import Variable, apply
from helpers.autodiff.operator import Operator, Type
from helpers.autodiff.sizes import Quotient, Size, count, shape_of

Shape = tuple[int | Size, ...]


@dataclass(frozen=True)
class Reshape(Operator):
    """The same elements in the same order, in another shape."""

    shape: Shape
    view_of_input = True

    def infer(self, x: Type) -> Type:
        ours, theirs = count(x.shape), count(self.shape)
        if ours != theirs and not (has_quotient(ours) or has_quotient(theirs)):
            raise ValueError(f"reshape expects {ours} elements; got {x.shape} to {self.shape}")
        return Type(x.dtype, self.shape)

    def view(self, x: np.ndarray) -> np.ndarray:
        return x.reshape(self.shape)  # type: ignore[arg-type]

    def gradient(self, g: Variable, y: Variable, x: Variable) -> Sequence[Variable]:
        return [reshape(g, x.shape)]


@dataclass(frozen=True)
class Transpose(Operator):
    """The axes in another order."""

    axes: tuple[int, ...]  # for each axis of the result, which of the operand
    view_of_input = True

    def infer(self, x: Type) -> Type:
        if sorted(self.axes) != list(range(len(x.shape))):
            raise ValueError(f"transpose expects each axis of {x.shape} once; got {self.axes}")
        return Type(x.dtype, tuple(x.shape[axis] for axis in self.axes))

    def view(self, x: np.ndarray) -> np.ndarray:
        return x.transpose(self.axes)

    def gradient(self, g: Variable, y: Variable, x: Variable) -> Sequence[Variable]:
        return [transpose(g, np.argsort(self.axes).tolist())]


def has_quotient(size: int | Size) -> bool:
    """Say whether a size holds an open division: such sizes are compared when the graph runs."""
    terms = size.terms if isinstance(size, Size) else ()
    return any(isinstance(factor, Quotient) for factors, _ in terms for factor in factors)


def reshape(x: Variable, shape: Sequence[int | str | Size]) -> Variable:
    """See the same elements, in order, in another shape; one size may be −1: what is left."""
    known = shape_of(size for size in shape if size != -1)
    if len(known) < len(shape):
        if len(known) < len(shape) - 1:
            raise ValueError(f"reshape expects at most one size of -1; got {tuple(shape)}")
        left = count(x.shape) // count(known)
        known = shape_of(left if size == -1 else size for size in shape)
    return x if known == x.shape else apply(Reshape(known), x)


def transpose(x: Variable, axes: Sequence[int] | None = None) -> Variable:
    """Put the axes into another order; backwards unless given."""
    order = tuple(axes) if axes is not None else tuple(reversed(range(x.ndim)))
    return apply(Transpose(tuple(a + x.ndim if a < 0 else a for a in order)), x)
