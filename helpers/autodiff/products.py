"""Products of matrices, or of stacks of them; two-dimensional convolution, which is one.

``Patches`` lays out, for every position of a window, what the window sees; ``Fold`` adds patches
back to where they came from. Both are linear and each is the other's gradient, so everything built
on them can be differentiated again and again. A convolution is a matrix times patches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from helpers.autodiff.broadcasting import broadcast
from helpers.autodiff.elementwise import broadcast_together
from helpers.autodiff.graph import Variable, apply
from helpers.autodiff.operator import Operator, Type
from helpers.autodiff.shaping import Embed, Slice, reshape, transpose
from helpers.autodiff.sizes import Size, count


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


def _over(
    x: np.ndarray, window: tuple[int, int], positions: tuple[int, ...]
) -> Iterator[tuple[int, int, np.ndarray]]:
    """Yield each pixel of a window, and a view (B, C, P, Q) of where it falls on images."""
    p, q = positions
    for i, j in np.ndindex(*window):
        yield i, j, x[:, :, i : i + p, j : j + q]


@dataclass(frozen=True)
class Patches(Operator):
    """(B, C, H, W) to (B, C, h, w, P, Q): what a window sees at each of P × Q positions."""

    height: int  # of the window
    width: int

    def infer(self, x: Type) -> Type:
        window = (self.height, self.width)
        if len(x.shape) != 4 or any(
            isinstance(have, int) and have < need
            for have, need in zip(x.shape[2:], window, strict=True)
        ):
            raise ValueError(f"a window of {window} expects a larger (B, C, H, W); got {x}")
        b, c, h, w = x.shape
        return Type(x.dtype, (b, c, *window, h - self.height + 1, w - self.width + 1))

    def run(self, out: np.ndarray, x: np.ndarray) -> None:
        for i, j, pixels in _over(x, out.shape[2:4], out.shape[4:]):
            out[:, :, i, j] = pixels

    def gradient(self, g: Variable, y: Variable, x: Variable) -> Sequence[Variable]:
        return [apply(Fold(x.shape), g)]


@dataclass(frozen=True)
class Fold(Operator):
    """(B, C, h, w, P, Q) to (B, C, H, W): each pixel is the sum over the positions that saw it."""

    shape: tuple[int | Size, ...]

    def infer(self, patches: Type) -> Type:
        return Type(patches.dtype, self.shape)

    def run(self, out: np.ndarray, patches: np.ndarray) -> None:
        out[...] = 0
        for i, j, pixels in _over(out, patches.shape[2:4], patches.shape[4:]):
            pixels += patches[:, :, i, j]

    def gradient(self, g: Variable, y: Variable, patches: Variable) -> Sequence[Variable]:
        return [apply(Patches(*patches.shape[2:4]), g)]  # type: ignore[arg-type]


def padded(x: Variable, padding: int) -> Variable:
    """Put a frame of zeros around images."""
    if not padding:
        return x
    b, c, h, w = x.shape
    stops = (b, c, h + padding, w + padding)
    part = Slice((0, 0, padding, padding), stops, (1, 1, 1, 1))
    return apply(Embed(part, (b, c, h + 2 * padding, w + 2 * padding)), x)


def conv2d(x: Variable, w: Variable, padding: int = 0) -> Variable:
    """Convolve images with filters (a cross-correlation, as in all of deep learning).

    Parameters
    ----------
    x : (B, C, H, W) Variable
    w : (O, C, h, w) Variable
        Its sizes are numbers.
    padding
        Zeros on each side.

    Returns
    -------
    (B, O, P, Q) Variable
        P = H + 2 padding − h + 1, and Q likewise.
    """
    if x.ndim != 4 or w.ndim != 4 or x.shape[1] != w.shape[1]:
        raise ValueError(
            f"conv2d expects (B, C, H, W) and (O, C, h, w); got {x.shape} and {w.shape}"
        )
    o, c, h, k = w.shape
    seen = apply(Patches(h, k), padded(x, padding))  # type: ignore[arg-type]
    b, (p, q) = x.shape[0], seen.shape[4:]
    columns = reshape(seen, (b, count((c, h, k)), count((p, q))))  # (B, C h w, P Q)
    y = matmul(reshape(w, (o, columns.shape[1])), columns)  # (B, O, P Q)
    return reshape(y, (b, o, p, q))
