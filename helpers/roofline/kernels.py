"""Kernels to place under the roofline, with their operations and bytes counted by hand.

Each builder returns (name, call, flops, bytes, threads), as ``place(*builder())`` takes it. Bytes:
inputs read once, outputs written once, fp32 unless stated. Arrays are of ``n`` numbers, or together
larger than the caches. Threads: as many as the machine has for what is written in C (one where the
compiler has no OpenMP), as many as torch was given for torch, one for NumPy.
"""

from __future__ import annotations

from ctypes import c_float, c_int64, c_void_p
from functools import cache

import numpy as np

from helpers import native
from helpers.machine import usable_cores
from helpers.roofline.system import reported_caches

ELEMENTWISE = r"""
#include <math.h>
#include <stdint.h>
void axpy(int64_t n, float s, const float *x, float *y) {
#pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++) y[i] += s * x[i];
}
float dot(int64_t n, const float *x, const float *y) {
    float sum = 0;
#pragma omp parallel for simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}
/* The same as fused(), below, as NumPy does it: four passes, t between them. */
void passes(int64_t n, float s, const float *x, const float *z, const float *w, float *y,
            float *t) {
#pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++) t[i] = s * x[i];
#pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++) t[i] = t[i] + z[i];
#pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++) t[i] = fmaxf(t[i], 0.0f);
#pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++) y[i] = t[i] * w[i];
}
/* y = max(s * x + z, 0) * w in one pass: four operations, every array touched once */
void fused(int64_t n, float s, const float *x, const float *z, const float *w, float *y) {
#pragma omp parallel for simd
    for (int64_t i = 0; i < n; i++) y[i] = fmaxf(s * x[i] + z[i], 0.0f) * w[i];
}
"""


def c_threads() -> int:
    """Return how many threads the loops in C are divided over: one if the compiler cannot."""
    return usable_cores() if native.openmp() else 1


@cache
def _elementwise():
    # fmaxf need not keep NaN apart here: without this the loop is a call for each element.
    made = native.load_c(ELEMENTWISE, (*native.openmp(), "-ffinite-math-only", "-fno-signed-zeros"))
    p = c_void_p
    made.axpy.argtypes = (c_int64, c_float, p, p)
    made.dot.argtypes, made.dot.restype = (c_int64, p, p), c_float
    made.fused.argtypes = (c_int64, c_float, p, p, p, p)
    made.passes.argtypes = (c_int64, c_float, p, p, p, p, p)
    return made


def _beyond_caches(arrays: int) -> int:
    """Return how long so many arrays must be so that memory, and not a cache, limits the loop."""
    last = max((one.size for one in reported_caches()), default=0)
    size = min(max(128 << 20, 2 * last), 512 << 20)  # bytes; a server may report 300 MiB of cache
    return size // (4 * arrays) // 1024 * 1024


def _arrays(n: int, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    # A million numbers, repeated: drawing more would take longer than the kernels.
    few = min(n, 1 << 20)
    return [np.resize(rng.random(few, dtype=np.float32) - np.float32(0.5), n) for _ in range(count)]


def _in_c(
    name: str, n: int | None, scalars: tuple[float, ...], arrays: int, flops: int, moved: int
):
    """Return a loop of ELEMENTWISE over arrays of n numbers; operations and bytes: of a number."""
    n = n or _beyond_caches(min(arrays, 4))  # passes and fused: of one length
    held, call = _arrays(n, arrays), getattr(_elementwise(), name)
    given = n, *scalars, *(array.ctypes.data for array in held)
    return name, lambda: call(*given) or held, flops * n, moved * n, c_threads()


def dot(n: int | None = None):
    """Σ x·y: 2 operations for 8 bytes."""
    return _in_c("dot", n, (), 2, flops=2, moved=8)


def axpy(n: int | None = None):
    """y ← y + s·x: 2 operations for 12 bytes."""
    return _in_c("axpy", n, (1e-9,), 2, flops=2, moved=12)


def unfused(n: int | None = None):
    """max(s·x + z, 0)·w in NumPy: four passes, three temporaries (counted: what they move)."""
    n = n or _beyond_caches(4)
    x, z, w = _arrays(n, 3)
    zero, s = np.float32(0), np.float32(2)
    # s·x: 8 bytes; + z: 12; max: 8; · w: 12
    return "unfused", lambda: np.maximum(s * x + z, zero) * w, 4 * n, 40 * n, 1


def fused(n: int | None = None):
    """The same in one pass: three arrays read, one written."""
    return _in_c("fused", n, (2.0,), 4, flops=4, moved=16)


def passes(n: int | None = None):
    """Four passes in C with one array between them: what fusing saves, with the same threads."""
    return _in_c("passes", n, (2.0,), 5, flops=4, moved=40)


def softmax(rows: int = 4096, columns: int = 2048):
    """Softmax of each row in torch: about 5 operations an element (exp counted as one)."""
    import torch

    x = torch.rand(rows, columns)
    out = torch.empty_like(x)  # new memory in each call would cost more than the kernel
    count = rows * columns
    threads = torch.get_num_threads()
    return "softmax", lambda: torch.softmax(x, 1, out=out), 5 * count, 8 * count, threads


def convolution():
    """A convolution layer of torch, 3 × 3, one image, same padding."""
    import torch

    channels, side = 64, 56
    layer = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=False).requires_grad_(False)
    x = torch.rand(1, channels, side, side)
    flops = 2 * channels**2 * 9 * side**2
    moved = 4 * (2 * channels * side**2 + 9 * channels**2)
    return "conv 3×3", lambda: layer(x), flops, moved, torch.get_num_threads()


def layer(batch: int, n: int, dtype=None, seed: int = 0):
    """A layer n → n of torch (fp32 unless stated): weights n × n, a batch in, a batch out."""
    import torch

    dtype = dtype or torch.float32
    x, weights = _layer(batch, n, seed)
    x, weights = x.to(dtype), weights.to(dtype)
    moved = dtype.itemsize * (n * n + 2 * batch * n)
    call = torch.nn.functional.linear
    return (
        f"B = {batch}",
        lambda: call(x, weights),
        2 * batch * n * n,
        moved,
        torch.get_num_threads(),
    )


def layer_error(batch: int, n: int, dtype, seed: int = 0) -> float:
    """The largest error of :func:`layer` in a dtype, as a part of the largest result in float64."""
    import torch

    x, weights = _layer(batch, n, seed)
    exact = torch.nn.functional.linear(x, weights)
    result = torch.nn.functional.linear(x.to(dtype), weights.to(dtype))
    return float((result.double() - exact).abs().max() / exact.abs().max())


def _layer(batch: int, n: int, seed: int):
    import torch

    generator = torch.Generator().manual_seed(seed)
    return tuple(
        torch.rand(rows, n, dtype=torch.float64, generator=generator) - 0.5 for rows in (batch, n)
    )


def standard():
    """Return the builders that notebook 07 places, bandwidth-bound ones first."""
    return [dot, axpy, unfused, passes, fused, softmax, convolution]
