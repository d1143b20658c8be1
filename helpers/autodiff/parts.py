"""Parts of a variable: ``Slice``, and ``Embed``, zeros with a part in its place.

Each is the other's gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

import numpy as np

from helpers.autodiff.graph import Variable, apply
from helpers.autodiff.operator import Operator, Type
from helpers.autodiff.shaping import Shape, reshape
from helpers.autodiff.sizes import Size


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


def sum_of(sizes: Any) -> int | Size:
    """Add sizes."""
    total: Any = 0
    for size in sizes:
        total = total + size
    return total


def sliced(starts: Shape, stops: Shape, steps: tuple[int, ...]) -> Shape:
    """Return the shape of a slice: ⌈(stop − start) / step⌉ on each axis."""
    bounds = zip(starts, stops, steps, strict=True)
    return tuple((stop - start + step - 1) // step for start, stop, step in bounds)  # type: ignore[operator]


def getitem(x: Variable, key: Any) -> Variable:
    """Take a part: integers, slices with positive steps, ``...`` and ``None``, as in NumPy."""
    keys: list[int | Size | slice | EllipsisType | None] = [
        *(key if isinstance(key, tuple) else (key,))
    ]
    for each in keys:
        sound = isinstance(each, int | np.integer | Size | slice | EllipsisType | None)
        if not sound or isinstance(each, bool):
            expected = "integers, slices, ... and None (take rows of a list one by one)"
            raise IndexError(f"an index expects {expected}; got {each!r}")
    used = sum(each is not None and each is not ... for each in keys)
    if used > x.ndim or keys.count(...) > 1:
        raise IndexError(f"an index expects at most {x.ndim} axes; got {key} of {x!r}")
    at = keys.index(...) if ... in keys else len(keys)
    keys[at : at + 1] = [slice(None)] * (x.ndim - used)
    starts, stops, steps, axis = [], [], [], 0
    shape: list[int | Size] = []
    for each in keys:
        if each is None:
            shape.append(1)
            continue
        start, stop, step = bounds(each, x.shape[axis])  # type: ignore[arg-type]
        starts.append(start)
        stops.append(stop)
        steps.append(step)
        if isinstance(each, slice):
            shape += sliced((start,), (stop,), (step,))
        axis += 1
    part = Slice(tuple(starts), tuple(stops), tuple(steps))
    whole = part == Slice((0,) * x.ndim, x.shape, (1,) * x.ndim)
    return reshape(x if whole else apply(part, x), shape)


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
