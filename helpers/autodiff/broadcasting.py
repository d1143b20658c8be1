"""Broadcasting and summing: two operators, each the other's gradient.

Broadcasting is an operator like any other. Elementwise operators take equal shapes only, so their
gradients are the textbook's; what broadcasting costs a gradient is written here, once. ``Sum``
keeps the axes that it reduces, at size 1: just what ``Broadcast`` starts from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from helpers.autodiff.graph import Variable, apply
from helpers.autodiff.operator import Operator, Type
from helpers.autodiff.shaping import Shape, reshape
from helpers.autodiff.sizes import Size, shape_of


@dataclass(frozen=True)
class Broadcast(Operator):
    """Axes of size 1 repeated; as many axes before as after."""

    shape: Shape
    view_of_input = True

    def infer(self, x: Type) -> Type:
        same_rank = len(x.shape) == len(self.shape)
        if not same_rank or any(a not in (1, b) for a, b in zip(x.shape, self.shape, strict=True)):
            raise ValueError(
                f"broadcast expects sizes of 1 or as asked; got {x.shape} to {self.shape}"
            )
        return Type(x.dtype, self.shape)

    def view(self, x: np.ndarray) -> np.ndarray:
        return np.broadcast_to(x, self.shape)  # type: ignore[arg-type]

    def gradient(self, g: Variable, y: Variable, x: Variable) -> Sequence[Variable]:
        grown = [i for i, (a, b) in enumerate(zip(x.shape, y.shape, strict=True)) if a != b]
        return [apply(Sum(tuple(grown)), g)]


@dataclass(frozen=True)
class Sum(Operator):
    """Add up along some axes, which stay at size 1."""

    axes: tuple[int, ...]

    def infer(self, x: Type) -> Type:
        if x.dtype == bool:
            raise TypeError(f"sum expects numbers; got {x}")
        return Type(x.dtype, kept(x, self.axes))

    def run(self, out: np.ndarray, x: np.ndarray) -> None:
        np.sum(x, self.axes, keepdims=True, out=out)

    def gradient(self, g: Variable, y: Variable, x: Variable) -> Sequence[Variable]:
        return [broadcast(g, x.shape)]


def broadcast(x: Variable, shape: Sequence[int | str | Size]) -> Variable:
    """Repeat along new axes in front, and along axes of size 1."""
    wanted = shape_of(shape)
    if wanted == x.shape:
        return x
    if len(wanted) < x.ndim:
        raise ValueError(f"broadcast expects {x.ndim} or more axes; got {x.shape} to {wanted}")
    x = reshape(x, (1,) * (len(wanted) - x.ndim) + x.shape)
    return x if wanted == x.shape else apply(Broadcast(wanted), x)


def kept(x: Type, axes: tuple[int, ...]) -> tuple:
    """Return a shape with some axes at size 1."""
    return tuple(1 if axis in axes else size for axis, size in enumerate(x.shape))


def reduced(x: Variable, axis: int | Iterable[int] | None) -> tuple[int, ...]:
    """Return which axes a caller means, sorted; negative ones count from the end."""
    axes = (
        range(x.ndim) if axis is None else (axis,) if isinstance(axis, (int, np.integer)) else axis
    )
    wrong = [a for a in axes if not -x.ndim <= a < x.ndim]
    if wrong:
        raise ValueError(f"a reduction of {x.shape} expects its axes; got {wrong[0]}")
    return tuple(sorted({a % x.ndim for a in axes}))


def reduction(
    operator: Callable[[tuple[int, ...]], Operator],
    x: Variable,
    axis: int | Iterable[int] | None,
    keepdims: bool,
) -> Variable:
    """Apply an operator that keeps the axes which it reduces, and drop them if so asked."""
    axes = reduced(x, axis)
    y = apply(operator(axes), x) if axes else x
    return y if keepdims else reshape(y, [s for a, s in enumerate(x.shape) if a not in axes])


def sum(x: Variable, axis: int | Iterable[int] | None = None, keepdims: bool = False) -> Variable:
    """Add up along some axes (all unless given); ``keepdims`` keeps them, at size 1."""
    return reduction(Sum, x, axis, keepdims)
