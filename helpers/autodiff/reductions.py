"""Reductions beyond the sum: the largest, the average, and softmax, coarse and fine.

Granularity is a choice. Softmax as one operator has one hand-written gradient, keeps only its
result for it, and is one kernel to tune. Five operators need no gradient of their own, and every
pass over the graph sees through them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from helpers.autodiff.broadcasting import Sum, broadcast, kept, reduced, reduction, sum
from helpers.autodiff.constants import full_like
from helpers.autodiff.elementwise import divide, equal, exp, multiply, subtract, where
from helpers.autodiff.gradient import stop_gradient
from helpers.autodiff.graph import Variable, apply
from helpers.autodiff.operator import Operator, Type
from helpers.autodiff.sizes import count


@dataclass(frozen=True)
class Max(Operator):
    """The largest along some axes, which stay at size 1; equals share its gradient evenly."""

    axes: tuple[int, ...]

    def infer(self, x: Type) -> Type:
        return Type(x.dtype, kept(x, self.axes))

    def run(self, out: np.ndarray, x: np.ndarray) -> None:
        np.max(x, self.axes, keepdims=True, out=out)

    def gradient(self, g: Variable, y: Variable, x: Variable) -> Sequence[Variable]:
        largest = equal(x, broadcast(y, x.shape))
        ones = where(largest, full_like(x, 1), 0)
        share = divide(g, apply(Sum(self.axes), ones))
        return [where(largest, broadcast(share, x.shape), 0)]


def max(x: Variable, axis: int | Iterable[int] | None = None, keepdims: bool = False) -> Variable:
    """Take the largest along some axes (all unless given); ``keepdims`` keeps them, at size 1."""
    return reduction(Max, x, axis, keepdims)


def mean(x: Variable, axis: int | Iterable[int] | None = None, keepdims: bool = False) -> Variable:
    """Average along some axes (all unless given); ``keepdims`` keeps them, at size 1."""
    elements = count(x.shape[a] for a in reduced(x, axis))  # perhaps a symbol: n, known later
    return divide(sum(x, axis, keepdims), elements)


@dataclass(frozen=True)
class Softmax(Operator):
    """exp(x) / Σ exp(x) along an axis, as one operator."""

    axis: int
    in_place = (0,)

    def infer(self, x: Type) -> Type:
        if x.dtype.kind != "f":
            raise TypeError(f"softmax expects floating; got {x}")
        return x

    def run(self, out: np.ndarray, x: np.ndarray) -> None:
        np.subtract(x, x.max(self.axis, keepdims=True), out=out)
        np.exp(out, out=out)
        out /= out.sum(self.axis, keepdims=True)

    def gradient(self, g: Variable, y: Variable, x: Variable) -> Sequence[Variable]:
        # dx_i = y_i (g_i − Σ_j g_j y_j)
        inner = sum(multiply(g, y), self.axis, keepdims=True)
        return [multiply(y, subtract(g, inner))]


def softmax(x: Variable, axis: int = -1, fine: bool = False) -> Variable:
    """Make positive numbers that add up to 1 along an axis.

    ``fine`` builds it from max, −, exp, Σ and ÷, not as one operator.
    """
    (axis,) = reduced(x, axis)
    if not fine:
        return apply(Softmax(axis), x)
    e = exp(subtract(x, stop_gradient(max(x, axis, keepdims=True))))
    return divide(e, sum(e, axis, keepdims=True))
