"""A 2-D convolution of one channel in C (convolution.c): directly, and with sums in registers."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_int64, c_void_p
from functools import cache
from pathlib import Path

import numpy as np

from helpers import native

SOURCE = Path(__file__).with_name("convolution.c")
WAYS = ("direct", "untested", "rows")


@cache
def _library(k: int):
    made = native.load_c(SOURCE.read_text(), (f"-DK={k}", *native.openmp()))
    for name in WAYS:
        getattr(made, name).argtypes = (c_int64, c_int64, *[c_void_p] * 3)
    return made


def convolver(way: str, filter_: np.ndarray) -> Callable[..., np.ndarray]:
    """Return ``convolve(image, out=None) -> out``, fp32, zeros outside, all threads.

    ``way``: "direct" (an output at a time, every pixel tested against the border), "untested"
    (the same, the test only near the border) or "rows" (each
    loaded vector of pixels feeds the sums of up to k rows). ``filter_``: (k, k), k odd, not
    flipped. Raises ValueError for another way or filter, and for images that are not contiguous
    float32 of two dimensions.
    """
    weights = np.ascontiguousarray(filter_, np.float32)
    if way not in WAYS:
        raise ValueError(f"way is one of {', '.join(WAYS)}; got {way!r}")
    if weights.ndim != 2 or weights.shape[0] != weights.shape[1] or not weights.shape[0] % 2:
        raise ValueError(f"expected a square filter with an odd side; got shape {weights.shape}")
    function = getattr(_library(len(weights)), way)

    def convolve(image, out=None):
        out = np.empty_like(image) if out is None else out
        for one in (image, out):
            if one.ndim != 2 or one.dtype != np.float32 or not one.flags.c_contiguous:
                raise ValueError(
                    f"expected contiguous float32 of two dimensions; got {one.dtype} {one.shape}"
                )
        if out.shape != image.shape:
            raise ValueError(f"expected an output of shape {image.shape}; got {out.shape}")
        function(*image.shape, image.ctypes.data, weights.ctypes.data, out.ctypes.data)
        return out

    return convolve


def flops(shape: tuple[int, int], k: int) -> int:
    """Operations of one convolution: a multiplication and an addition for each filter entry."""
    return 2 * shape[0] * shape[1] * k * k


def least_bytes(shape: tuple[int, int]) -> int:
    """fp32 bytes that must move at the least: the image read once, the output written once."""
    return 8 * shape[0] * shape[1]
