"""The same elements in another shape, the axes in another order, or a part: nothing is computed.

``Reshape`` has as its gradient the ``Reshape`` to the operand's shape, ``Transpose`` that by the
inverse permutation, and ``Slice`` ``Embed``: zeros with a part in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True)
class Slice(Operator):
    """Along each axis from ``starts`` to before ``stops`` in ``steps``."""

    starts: Shape
    stops: Shape  # one past the last
    steps: tuple[int, ...]
    view_of_input = True

    def infer(self, x: Type) -> Type:
        return Type(x.dtype, sliced(self.starts, self.stops, self.steps))

    def where(self) -> tuple[slice, ...]:
        """Return the slices as NumPy has them."""
        return tuple(map(slice, self.starts, self.stops, self.steps))

    def view(self, x: np.ndarray) -> np.ndarray:
        return x[self.where()]

    def gradient(self, g: Variable, y: Variable, x: Variable) -> Sequence[Variable]:
        return [apply(Embed(self, x.shape), g)]


@dataclass(frozen=True)
class Embed(Operator):
    """Zeros of a shape, with the operand where a slice would read."""

    part: Slice
    shape: Shape

    def infer(self, x: Type) -> Type:
        return Type(x.dtype, self.shape)

    def bind(self, bindings: Any) -> Embed:
        return Embed(self.part.bind(bindings), super().bind(bindings).shape)

    def run(self, out: np.ndarray, x: np.ndarray) -> None:
        out[...] = 0
        out[self.part.where()] = x

    def gradient(self, g: Variable, y: Variable, x: Variable) -> Sequence[Variable]:
        return [apply(self.part, g)]


def sliced(starts: Shape, stops: Shape, steps: tuple[int, ...]) -> Shape:
    """Return the shape of a slice: ⌈(stop − start) / step⌉ on each axis."""
    bounds = zip(starts, stops, steps, strict=True)
    return tuple((stop - start + step - 1) // step for start, stop, step in bounds)  # type: ignore[operator]


def getitem(x: Variable, key: Any) -> Variable:
    """Take a part: integers, and slices with positive steps, as in NumPy."""
    keys = [*(key if isinstance(key, tuple) else (key,))]
    for each in keys:
        if isinstance(each, bool) or not isinstance(each, int | np.integer | Size | slice):
            raise IndexError(
                f"an index expects integers and slices (take rows one by one); got {each!r}"
            )
    if len(keys) > x.ndim:
        raise IndexError(f"an index expects at most {x.ndim} axes; got {key} of {x!r}")
    keys += [slice(None)] * (x.ndim - len(keys))
    ends = [bounds(each, size) for each, size in zip(keys, x.shape, strict=True)]
    starts, stops, steps = (tuple(end[k] for end in ends) for k in range(3))
    sizes = zip(keys, sliced(starts, stops, steps), strict=True)
    part = Slice(starts, stops, steps)
    whole = part == Slice((0,) * x.ndim, x.shape, (1,) * x.ndim)
    return reshape(x if whole else apply(part, x), [s for k, s in sizes if isinstance(k, slice)])


def bounds(key: int | Size | slice, size: int | Size) -> tuple[Any, Any, int]:
    """Return start, stop and step of one axis's index: 0 ≤ start ≤ stop ≤ size for numbers."""
    if not isinstance(key, slice):
        start = key + size if isinstance(key, int) and key < 0 else key
        if isinstance(size, int) and isinstance(start, int) and not 0 <= start < size:
            raise IndexError(f"an index expects -{size} to {size - 1}; got {key}")
        return start, start + 1, 1
    step = 1 if key.step is None else key.step
    if step < 1:
        raise IndexError(f"a slice expects a step of 1 or more; got {step}")
    ends: list[Any] = [
        0 if key.start is None else key.start,
        size if key.stop is None else key.stop,
    ]
    ends = [end + size if isinstance(end, int) and end < 0 else end for end in ends]
    if isinstance(size, int):
        ends = [min(max(end, 0), size) if isinstance(end, int) else end for end in ends]
        if isinstance(ends[0], int) and isinstance(ends[1], int):
            ends[1] = max(ends)
    return ends[0], ends[1], step
