"""Checks behind the softmax and the attention of notebook 15, run on the CPU, accesses checked."""

from __future__ import annotations

import numpy as np

from helpers.exercises.core import close, wrong
from helpers.exercises.kernels import compiled, kernel_exercise, run, shared_out


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
