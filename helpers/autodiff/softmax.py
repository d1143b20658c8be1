"""Softmax, coarse and fine: one operator, or five. Granularity is a choice.

One operator has one hand-written gradient, keeps only its result for it, and is one kernel to tune.
Five need no gradient of their own, and every pass over the graph sees through them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from helpers.autodiff.broadcasting import reduced, sum
from helpers.autodiff.elementwise import divide, exp, multiply, subtract
from helpers.autodiff.gradient import stop_gradient
from helpers.autodiff.graph import Variable, apply
from helpers.autodiff.operator import Operator, Type
from helpers.autodiff.reductions import max


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
