"""Quantised numbers as bits, in compiled C (pack.c): the norms of all buckets, then the codes.

A code is a sign and a whole number of levels, 0 to s: with s = 1, 3, 7, 15 it fills 2, 3, 4, 5
bits. A bucket of 512 values so becomes 4 + 64·bits bytes, where it had 2048.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_float, c_int32, c_int64, c_uint32
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from helpers import native

BUCKET = 512  # values that share a norm, as in pack.c
LANES = 16  # of the generator of random numbers
BITS = {1: 2, 3: 3, 7: 4, 15: 5}  # s → bits of a code


@cache
def _library() -> ctypes.CDLL:
    made = native.load_c(Path(__file__).with_name("pack.c").read_text(), ("-Wno-psabi",))
    f32, u32 = POINTER(c_float), POINTER(c_uint32)
    made.pack.argtypes = (f32, c_int64, u32, f32, u32, c_int32)
    made.pack.restype = None
    made.add.argtypes = (f32, u32, c_int64, c_float, f32, c_int32)
    made.add.restype = None
    return made


def bits_of(levels: int) -> int:
    """Return the bits of one code: the sign, and 0 to s, which is 1, 3, 7 or 15."""
    if levels not in BITS:
        raise ValueError(f"levels={levels!r}: expected one of {', '.join(map(str, BITS))}")
    return BITS[levels]


def buckets(n: int) -> int:
    """Count the buckets of n values, of :data:`BUCKET` values each; the last may have fewer."""
    return -(-n // BUCKET)


def packed_bytes(n: int, levels: int) -> int:
    """Return the bytes of n packed values: those of whole buckets, the last one filled up."""
    return (4 + BUCKET // 8 * bits_of(levels)) * buckets(n)


def generator(seed: int) -> np.ndarray:
    """Make the state of a generator, (16,) of uint32, which each call of :func:`pack` changes.

    The rank belongs in the seed, or all ranks round the same way.
    """
    state = np.random.default_rng(seed).integers(1, 2**32, LANES, dtype=np.uint32)
    return np.ascontiguousarray(state)


def pack(v: np.ndarray, levels: int, state: np.ndarray) -> np.ndarray:
    """Round each value at random to a level of its bucket's norm, and pack the codes.

    Return bytes: the norms (float32), then the codes. ``v`` (n,) is contiguous float32, ``levels``
    s is 1, 3, 7 or 15, and ``state`` comes from :func:`generator`. ValueError for another s, arrays
    of another kind or size, or values of which a bucket has no finite norm: then the packed bytes
    would stand for NaN.
    """
    out = np.empty(packed_bytes(len(v), levels), np.uint8)
    _need(v, np.float32, len(v), "v")
    _need(state, np.uint32, LANES, "state")
    norms = 4 * buckets(len(v))
    _library().pack(_at(v), len(v), _at(state, c_uint32), _at(out), _at(out[norms:], c_uint32),
                    bits_of(levels))  # fmt: skip
    wrong = np.flatnonzero(~np.isfinite(out[:norms].view(np.float32)))
    if wrong.size:
        some = np.abs(v[wrong[0] * BUCKET :][:BUCKET])
        raise ValueError(
            f"v expects finite values whose norm is one too; got up to {some.max()} from value "
            f"{wrong[0] * BUCKET} on"
        )
    return out


def add(packed: np.ndarray, levels: int, out: np.ndarray, factor: float = 1.0) -> None:
    """Unpack, and add `factor` times the values to contiguous `out`."""
    _need(out, np.float32, len(out), "out")
    _need(packed, np.uint8, packed_bytes(len(out), levels), "packed")
    norms = 4 * buckets(len(out))
    _library().add(_at(packed), _at(packed[norms:], c_uint32), len(out), factor, _at(out),
                   bits_of(levels))  # fmt: skip


def _need(array: np.ndarray, kind: type, size: int, name: str) -> None:
    fits = isinstance(array, np.ndarray) and array.dtype == kind and array.shape == (size,)
    if not fits or not array.flags.c_contiguous:
        got = f"{getattr(array, 'dtype', type(array))} {getattr(array, 'shape', '')}"
        raise ValueError(f"{name} expects {size} contiguous {kind.__name__}; got {got}")


def _at(array: np.ndarray, kind: Any = c_float) -> Any:
    return ctypes.cast(array.ctypes.data, POINTER(kind))
