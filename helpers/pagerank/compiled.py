"""PageRank's inner loops in C (kernels.c), reached through ctypes."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_double, c_int32, c_int64
from functools import cache
from pathlib import Path

import numpy as np

from helpers import native
from helpers.machine.compilers import find_compiler


@cache
def _library() -> ctypes.CDLL:
    made = native.load_c(Path(__file__).with_name("kernels.c").read_text())
    i32, reals = POINTER(c_int32), POINTER(c_double)
    made.sweep.argtypes = (c_int64, *[i32] * 4, *[reals] * 5, c_double, c_double, c_int32)
    made.sweep.restype = c_double
    made.order_components.argtypes = (c_int32, *[POINTER(c_int32)] * 5)
    made.order_components.restype = c_int64
    return made


def works() -> bool:
    """Whether there is a C compiler that compiles this file's C, and the result can be loaded."""
    try:
        find_compiler()
        _library()
    except (native.CompilerError, OSError):
        return False
    return True


def _at(array, kind):
    return None if array is None else array.ctypes.data_as(POINTER(kind))


def order_components(indptr, indices, large: int) -> tuple[np.ndarray, np.ndarray]:
    """List the nodes of a graph component by component, each after those that link to it.

    ``indptr``, ``indices``: incoming links in CSR, int32. Returns (order, start): component b is
    ``order[start[b]:start[b + 1]]``. Components above ``large`` nodes are listed by number, which
    reads the matrix from beginning to end.
    """
    n = len(indptr) - 1
    order, start = np.empty(n, dtype=np.int32), np.empty(n + 1, dtype=np.int32)
    arrays = (indptr, indices, order, start, np.empty(5 * n, dtype=np.int32))
    count = _library().order_components(n, *(_at(a, c_int32) for a in arrays))
    start = start[: count + 1]
    for block in np.flatnonzero(np.diff(start) > large):
        order[start[block] : start[block + 1]].sort()
    return order, start


def make_sweep(indptr, indices, weights, factor, base, blocks, order, damping, small):
    """Return ``sweep(x, scaled, tolerance) -> change``, one Gauss-Seidel pass (see kernels.c).

    ``indptr``, ``indices``, ``weights`` (or None) are the incoming links in CSR, ``factor`` is
    damping / out-weight (N,), ``base`` the teleport term (N,); ``order`` (N,) lists the nodes and
    ``blocks`` (B + 1,) where each block of them begins.
    """
    function = _library().sweep
    held = [np.ascontiguousarray(a, dtype=np.int32) for a in (blocks, order, indptr, indices)]
    held += [weights, factor, base]  # by the closure: the arrays must outlive the pointers to them
    fixed = [_at(a, c_int32) for a in held[:4]] + [_at(a, c_double) for a in held[4:]]

    def sweep(x, scaled, tolerance):
        return function(
            len(held[0]) - 1,
            *fixed,
            _at(x, c_double),
            _at(scaled, c_double),
            damping,
            tolerance,
            small,
        )

    return sweep
