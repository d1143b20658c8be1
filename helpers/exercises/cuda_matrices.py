"""Checks behind kernels on whole matrices (05, 14, 15): a filter, products, softmax, attention."""

from __future__ import annotations

import numpy as np

from helpers.exercises.core import close, wrong
from helpers.exercises.kernels import compiled, kernel_exercise, run, shared_out


@kernel_exercise
def constant_filter(answer):
    """from_constant(image, out, height, width): 5 × 5, its weights in ``__constant__`` taps."""
    from scipy.ndimage import correlate

    from helpers.cuda import CudaError

    rng = np.random.default_rng(3)
    with compiled(answer) as module:
        for height, width in ((16, 64), (13, 37)):
            image = rng.random((height, width), np.float32)
            weights = rng.standard_normal((5, 5)).astype(np.float32)
            try:
                module.constant("taps", weights)
            except CudaError as error:
                wrong(f"the host cannot fill taps with 25 floats: {error}")
            out, what = np.full_like(image, np.nan), f"{height} × {width}"
            want = correlate(image, weights, mode="constant")  # the kernel may write to image
            grid = (-(-width // 32), -(-height // 8))
            record = run(module, "from_constant", grid, (32, 8), image, out, height, width,
                         record=True)  # fmt: skip
            close(out, want, f"out for {what}", rtol=1e-4, atol=1e-4)
            shared_out(record, "out", "write", 1, what)


@kernel_exercise
def tiled_product(answer):
    """tiled_product(a, b, c, m, k, n): c = a b through tiles of 16 × 16, any sides."""
    with compiled(answer) as module:
        for size in ((16, 16, 16), (33, 18, 50), (5, 40, 7), (1, 1, 1)):
            _product(module, "tiled_product", 1, size, "with tiles")


@kernel_exercise
def coarse_product(answer):
    """coarse_product<C>(a, b, c, m, k, n): the same, C outputs a thread; a Module or its source."""
    with compiled(answer) as module:
        for outputs, size in ((1, (33, 18, 50)), (4, (16, 16, 64)), (4, (33, 18, 70)),
                              (4, (5, 40, 7)), (3, (20, 33, 130))):  # fmt: skip
            _product(module, f"coarse_product<{outputs}>", outputs, size, "for all its outputs")


def _product(module, name: str, outputs: int, size: tuple[int, int, int], how: str) -> None:
    """Judge a product of m × k by k × n numbers; ``outputs`` tiles of b serve one of a."""
    m, k, n = size
    rng = np.random.default_rng(11 + sum(size))
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    a, b, c = a.astype(np.float32), b.astype(np.float32), np.full((m, n), np.nan, np.float32)
    across, down, what = -(-n // (16 * outputs)), -(-m // 16), f"{m} × {k} × {n}"
    if "<" in name:
        what = f"{name}, {what}"
    record = run(module, name, (across, down), (16, 16), a, b, c, m, k, n, record=True)
    close(c, a @ b, f"c for {what}", rtol=1e-4, atol=1e-4)
    steps = -(-k // 16)
    for array, least, most in (
        ("a", m * k * across, steps),
        ("b", k * n * down, outputs * steps),
    ):
        if (reads := record.count(array=array, kind="read")) > least:
            wrong(
                f"{what}: c is right, but {array} was read {reads} times: {how}, each block "
                "reads each of its numbers once"
            )
        shared_out(record, array, "read", most, what)


@kernel_exercise
def online_softmax(answer):
    """online_softmax(x, y, n): softmax of rows of n, a warp for each; x is read twice at most."""
    rng = np.random.default_rng(15)
    with compiled(answer) as module:
        for rows, n, size in ((3, 64, 3), (2, 100, 300), (2, 5, 3), (1, 1, 3)):
            x = (size * rng.standard_normal((rows, n))).astype(np.float32)
            y, what = (
                np.full_like(x, np.nan),
                f"{rows} rows of {n} numbers up to {abs(x).max():.0f}",
            )
            record = run(module, "online_softmax", rows, 32, x, y, n, record=True)
            close(y, _softmax(x), f"y for {what}", rtol=1e-3, atol=1e-6)
            if (reads := record.count(array="x", kind="read")) > 2 * x.size:
                wrong(
                    f"{what}: y is right, but x was read {reads} times: m and l need each number "
                    "once, and the last line once more"
                )
            if (writes := record.count(array="y", kind="write")) > y.size:
                wrong(
                    f"{what}: y is right, but it was written {writes} times: the last line writes "
                    "each number, and your part none"
                )
            shared_out(record, "x", "read", 2 * -(-n // 32), what)


@kernel_exercise
def my_attention(answer):
    """my_attention(q, k, v, o, n): attention over n positions of 32 numbers, a thread a query."""
    rng = np.random.default_rng(16)
    with compiled(answer) as module:
        for n, size in ((32, 1), (50, 1), (7, 1), (70, 40)):
            q, k, v = rng.standard_normal((3, n, 32)).astype(np.float32)
            k *= size * np.linspace(0.1, 1, n, dtype=np.float32)[:, None]  # the maximum rises
            scores = q.astype(float) @ k.T.astype(float) / np.sqrt(32)
            o = np.full_like(q, np.nan)
            what = f"{n} positions, scores up to {scores.max():.0f}"
            grid = -(-n // 32)
            record = run(module, "my_attention", grid, 32, q, k, v, o, n, record=True)
            close(o, _softmax(scores) @ v, f"o for {what}", rtol=1e-3, atol=1e-4)
            for array in ("k", "v"):
                if (reads := record.count(array=array, kind="read")) > k.size * grid:
                    wrong(
                        f"{what}: o is right, but {array} was read {reads} times: the tiles in "
                        "shared memory hold all that a block needs"
                    )
            shared_out(record, "o", "write", 32, what)


def _softmax(x: np.ndarray) -> np.ndarray:
    """Return the softmax of each row, in double precision."""
    weights = np.exp(x.astype(float) - x.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)
