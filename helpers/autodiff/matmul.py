"""The product of matrices, or of stacks of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from helpers.autodiff.broadcasting import broadcast
from helpers.autodiff.elementwise import broadcast_together
from helpers.autodiff.graph import Variable, apply
from helpers.autodiff.operator import Operator, Type
from helpers.autodiff.shaping import reshape, transpose
from helpers.autodiff.sizes import count


@dataclass(frozen=True)
class MatMul(Operator):
    """(..., m, k) times (..., k, n): the axes in front are equal."""

    def infer(self, a: Type, b: Type) -> Type:
        if a.dtype != b.dtype or a.dtype.kind != "f":
            raise TypeError(f"matmul expects one floating dtype; got {a} and {b}")
        if min(len(a.shape), len(b.shape)) < 2 or (*a.shape[:-2], a.shape[-1]) != b.shape[:-1]:
            raise ValueError(f"matmul expects (..., m, k) and (..., k, n); got {a} and {b}")
        return Type(a.dtype, (*a.shape[:-1], b.shape[-1]))

    def run(self, out: np.ndarray, a: np.ndarray, b: np.ndarray) -> None:
        np.matmul(a, b, out=out)

    def gradient(self, g: Variable, y: Variable, a: Variable, b: Variable) -> Sequence[Variable]:
        return [apply(self, g, swapped(b)), apply(self, swapped(a), g)]  # g bᵀ, aᵀ g


def swapped(x: Variable) -> Variable:
    """Transpose the last two axes."""
    return transpose(x, [*range(x.ndim - 2), x.ndim - 1, x.ndim - 2])


def matmul(a: Variable, b: Variable) -> Variable:
    """Multiply matrices, stacks of them (axes in front broadcast), or vectors as NumPy does."""
    if min(a.ndim, b.ndim) < 1 or a.shape[-1] != b.shape[max(b.ndim - 2, 0)]:
        raise ValueError(f"matmul expects (..., m, k) and (..., k, n); got {a.shape} and {b.shape}")
    if a.ndim == 1:
        y = matmul(reshape(a, (1, *a.shape)), b)
        return reshape(y, (*y.shape[:-2], y.shape[-1]) if b.ndim > 1 else ())
    if b.ndim == 1:
        y = matmul(a, reshape(b, (*b.shape, 1)))
        return reshape(y, y.shape[:-1])
    if b.ndim == 2 and a.ndim > 2:  # one matrix for the whole stack: one product
        rows = reshape(a, (count(a.shape[:-1]), a.shape[-1]))
        return reshape(apply(MatMul(), rows, b), (*a.shape[:-1], b.shape[-1]))
    if a.shape[:-2] == b.shape[:-2]:
        return apply(MatMul(), a, b)
    stacked = broadcast_together("matmul", *(_front(x) for x in (a, b)))
    front = stacked[0].shape
    return apply(MatMul(), *(broadcast(x, (*front, *x.shape[-2:])) for x in (a, b)))


def _front(x: Variable) -> Variable:
    """Return a variable with the shape of x's axes in front; nothing computes it."""
    return Variable(Type(x.dtype, x.shape[:-2]))
