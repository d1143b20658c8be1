"""Two-dimensional convolution, by patches.

``Patches`` lays out, for every position of a window, what the window sees; ``Fold`` adds patches
back to where they came from. Both are linear and each is the other's gradient, so everything built
on them can be differentiated again and again. A convolution is a matrix times patches.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from helpers.autodiff.elementwise import add
from helpers.autodiff.graph import Variable, apply
from helpers.autodiff.matmul import matmul
from helpers.autodiff.operator import Operator, Type
from helpers.autodiff.parts import Embed, Slice
from helpers.autodiff.shaping import reshape
from helpers.autodiff.sizes import Size, count
from helpers.machine.compilers import CompilerError
from helpers.native import load_c

C_TYPES = {"float32": "float", "float64": "double"}


@dataclass(frozen=True)
class Window:
    """A window that moves over an image."""

    height: int
    width: int
    stride: int  # pixels from one position to the next

    def positions(self, height: int | Size, width: int | Size) -> tuple[int | Size, int | Size]:
        """Count the positions in an image."""
        return (height - self.height) // self.stride + 1, (width - self.width) // self.stride + 1

    def over(
        self, x: np.ndarray, positions: tuple[int, ...]
    ) -> Iterator[tuple[int, int, np.ndarray]]:
        """Yield each pixel of the window, and a view (B, C, P, Q) of where it falls on images."""
        (p, q), s = positions, self.stride
        for i in range(self.height):
            for j in range(self.width):
                yield i, j, x[:, :, i : i + s * p : s, j : j + s * q : s]

    def in_c(self, name: str, image: np.ndarray, patches: np.ndarray) -> bool:
        """Unfold or fold in C, if there is a compiler and no gap in an array; say whether."""
        even = image.flags.c_contiguous and patches.flags.c_contiguous
        library = _library(str(image.dtype)) if even else None
        if library is None:
            return False
        planes = image.shape[0] * image.shape[1]
        sizes = (planes, *image.shape[2:], *patches.shape[2:], self.stride)
        pointers = (ctypes.c_void_p(each.ctypes.data) for each in (image, patches))
        getattr(library, name)(*map(ctypes.c_long, sizes), *pointers)
        return True


@lru_cache
def _library(dtype: str) -> ctypes.CDLL | None:
    if dtype not in C_TYPES:
        return None
    source = Path(__file__).with_name("patches.c").read_text(encoding="utf-8")
    try:
        return load_c(source, (f"-DT={C_TYPES[dtype]}",))
    except CompilerError:  # NumPy then does it, in its own time
        return None


@dataclass(frozen=True)
class Patches(Operator):
    """(B, C, H, W) to (B, C, h, w, P, Q): what a window sees at each of P × Q positions."""

    window: Window

    def infer(self, x: Type) -> Type:
        h, w = self.window.height, self.window.width
        if len(x.shape) != 4 or any(
            isinstance(have, int) and have < need
            for have, need in zip(x.shape[2:], (h, w), strict=True)
        ):
            raise ValueError(f"a window of {(h, w)} expects a larger (B, C, H, W); got {x}")
        batch, channels, *image = x.shape
        return Type(x.dtype, (batch, channels, h, w, *self.window.positions(*image)))

    def run(self, out: np.ndarray, x: np.ndarray) -> None:
        if not self.window.in_c("unfold", x, out):
            for i, j, pixels in self.window.over(x, out.shape[4:]):
                out[:, :, i, j] = pixels

    def gradient(self, g: Variable, y: Variable, x: Variable) -> Sequence[Variable]:
        return [apply(Fold(self.window, x.shape), g)]


@dataclass(frozen=True)
class Fold(Operator):
    """(B, C, h, w, P, Q) to (B, C, H, W): each pixel is the sum over the positions that saw it."""

    window: Window
    shape: tuple[int | Size, ...]

    def infer(self, patches: Type) -> Type:
        return Type(patches.dtype, self.shape)

    def run(self, out: np.ndarray, patches: np.ndarray) -> None:
        if not self.window.in_c("fold", out, patches):
            out[...] = 0
            for i, j, pixels in self.window.over(out, patches.shape[4:]):
                pixels += patches[:, :, i, j]

    def gradient(self, g: Variable, y: Variable, patches: Variable) -> Sequence[Variable]:
        return [apply(Patches(self.window), g)]


def padded(x: Variable, padding: int) -> Variable:
    """Put a frame of zeros around images."""
    if not padding:
        return x
    b, c, h, w = x.shape
    stops = (b, c, h + padding, w + padding)
    part = Slice((0, 0, padding, padding), stops, (1, 1, 1, 1))
    return apply(Embed(part, (b, c, h + 2 * padding, w + 2 * padding)), x)


def conv2d(
    x: Variable, w: Variable, bias: Variable | None = None, stride: int = 1, padding: int = 0
) -> Variable:
    """Convolve images with filters (a cross-correlation, as in all of deep learning).

    Parameters
    ----------
    x : Variable (B, C, H, W)
        Images.
    w : Variable (O, C, h, w)
        Filters, of numeric size.
    bias : Variable (O,), optional
        Added to each output channel.
    padding : int
        Zeros on each side.

    Returns
    -------
    Variable (B, O, P, Q)
        P = ⌊(H + 2 padding − h) / stride⌋ + 1, Q likewise.
    """
    if x.ndim != 4 or w.ndim != 4 or x.shape[1] != w.shape[1]:
        raise ValueError(
            f"conv2d expects (B, C, H, W) and (O, C, h, w); got {x.shape} and {w.shape}"
        )
    o, c, h, k = w.shape
    seen = apply(Patches(Window(h, k, stride)), padded(x, padding))  # type: ignore[arg-type]
    b, (p, q) = x.shape[0], seen.shape[4:]
    columns = reshape(seen, (b, count((c, h, k)), count((p, q))))  # (B, C h w, P Q)
    y = matmul(reshape(w, (o, columns.shape[1])), columns)  # (B, O, P Q)
    y = reshape(y, (b, o, p, q))
    return y if bias is None else add(y, reshape(bias, (o, 1, 1)))
