"""Reductions beyond the sum: the largest, and the average."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from helpers.autodiff.broadcasting import Sum, broadcast, kept, reduced, reduction, sum
from helpers.autodiff.constants import full_like
from helpers.autodiff.elementwise import divide, equal, where
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
