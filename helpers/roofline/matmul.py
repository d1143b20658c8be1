"""The matrix product in C (matmul.c): loop orders, dot products, blocks, a tile in registers."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_int64, c_void_p
from functools import cache, partial
from pathlib import Path

import numpy as np

from helpers import native
from helpers.roofline.cache import ORDERS

SOURCE = Path(__file__).with_name("matmul.c")
TILE = (6, 16)  # ROWS, COLS of matmul.c
KINDS = {  # (B is turned, sums that do not wait for one another, numbers in each) -> in matmul.c
    (turned, sums, wide): f"dots_{'turned' if turned else 'jumps'}_{sums}_{wide}"
    for turned in (False, True)
    for sums in (1, 8)
    for wide in (1, 8)
}


@cache
def _library(*optimise: str):
    flags = ("-march=native", "-fPIC", "-shared")
    made = native.load_c(SOURCE.read_text(), optimise, base=flags)
    for name in (*ORDERS, "blocked", "tiled", *KINDS.values()):
        pointers = 4 if name == "tiled" else 3
        sizes = 2 if name == "blocked" else 1
        getattr(made, f"matmul_{name}").argtypes = (*[c_int64] * sizes, *[c_void_p] * pointers)
    return made


def on_lines(n: int) -> np.ndarray:
    """Return an n × n float32 matrix of zeros that begins where a line of the cache does.

    NumPy's begin 16 bytes further: each load of 64 bytes then touches two lines, and ikj took twice
    as long.
    """
    held = np.zeros(n * n + 16, dtype=np.float32)
    start = -held.ctypes.data % 64 // 4
    return held[start : start + n * n].reshape(n, n)


def matrices(n: int, seed: int = 0) -> list[np.ndarray]:
    """Return two random n × n float32 matrices that begin where a line of the cache does."""
    made, rng = [on_lines(n), on_lines(n)], np.random.default_rng(seed)
    for matrix in made:
        rng.random(dtype=np.float32, out=matrix)
    return made


def versions(n: int, block: int = 64, optimise: str = "-O3") -> dict[str, Callable]:
    """Return products of n × n matrices by name: the loop orders, "blocked", "tiled" and "library".

    "tiled" is there where n is a multiple of 48; "library" is NumPy's BLAS.

    Parameters
    ----------
    block
        Side of the blocks of "blocked".
    optimise
        What the C compiler is told.

    Returns
    -------
    dict of str to callable
        ``multiply(a, b) -> c``, all (n, n) float32 in C order, else ValueError (but "library").
        Each call allocates its result.
    """
    if n < 1 or block < 1:
        raise ValueError(f"versions expects n >= 1 and block >= 1; got n={n}, block={block}")
    library = _library(optimise)
    made = {order: _in_c(library, order, n) for order in ORDERS}
    made["blocked"] = _in_c(library, "blocked", n, block)
    if n % TILE[0] == 0 and n % TILE[1] == 0:
        made["tiled"] = _in_c(library, "tiled", n, packs=True)
    made["library"] = np.matmul
    return made


def causes(a: np.ndarray, b: np.ndarray) -> dict[tuple[bool, int, int], Callable]:
    """Return products of ``a`` and ``b`` that differ in three causes: kind → ``call() -> c``.

    A key says whether B is turned (transposed beforehand, so that the inner loop's steps are 1),
    how many sums there are of which none waits for another (1 or 8), and how many numbers each
    holds (1, or 8 in a vector). Raises ValueError for a side that is no multiple of 64.
    """
    n = len(a)
    if n % 64:
        raise ValueError(f"causes expects a side that is a multiple of 64; got {n}")
    library, lying = _library("-O3", "-fno-tree-vectorize"), on_lines(n)
    lying[:] = b.T
    return {
        kind: partial(_in_c(library, name, n), a, lying if kind[0] else b)
        for kind, name in KINDS.items()
    }


def _in_c(library, name: str, n: int, *sizes: int, packs: bool = False) -> Callable:
    function, packed = getattr(library, f"matmul_{name}"), [on_lines(n)] if packs else []

    def multiply(a, b):
        for one in (a, b):
            if one.shape != (n, n) or one.dtype != np.float32 or not one.flags.c_contiguous:
                raise ValueError(
                    f"expected contiguous float32 arrays of shape ({n}, {n}); got {one.dtype} "
                    f"{one.shape}"
                )
        c = on_lines(n)
        function(n, *sizes, *(one.ctypes.data for one in (a, b, c, *packed)))
        return c

    return multiply


def flops(n: int) -> int:
    """Operations of an n × n product: a multiplication and an addition for each i, j, k."""
    return 2 * n**3


def least_bytes(n: int, size: int = 4) -> int:
    """Bytes that must move at the least: both inputs read once, the result written once."""
    return 3 * n * n * size
