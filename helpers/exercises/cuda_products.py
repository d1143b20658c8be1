"""Checks behind the products of matrices in notebook 14: tiles, and several outputs a thread."""

from __future__ import annotations

import numpy as np

from helpers.exercises.core import close, wrong
from helpers.exercises.kernels import compiled, kernel_exercise, run, shared_out


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
