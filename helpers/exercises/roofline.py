"""Checks behind the exercises of notebook 07."""

from __future__ import annotations

from helpers.exercises.core import call, close, equal, exercise, wrong


@exercise
def predict_point(answer):
    """answer(flops, bytes, peak, bandwidth) -> seconds that a kernel takes at the least."""
    for flops, moved, peak, bandwidth in (
        (2e9, 12e9, 1e11, 2e10),
        (2e12, 12e6, 1e11, 2e10),
        (5e9, 1e9, 1e11, 2e10),
        (0, 4e9, 1e11, 2e10),
    ):
        what = f"{flops:.0e} flop, {moved:.0e} bytes, {peak:.0e} flop/s, {bandwidth:.0e} bytes/s"
        want = max(flops / peak, moved / bandwidth)
        close(call(answer, flops, moved, peak, bandwidth), want, f"seconds for {what}")


@exercise
def strides(answer):
    """answer: dict from loop name to the strides (in elements) of A, B, C in that inner loop."""
    want = {"i": ("n", 0, "n"), "j": (0, 1, 1), "k": (1, "n", 0)}
    if not isinstance(answer, dict) or set(answer) != set(want):
        wrong(f"expected a dict with the keys 'i', 'j' and 'k', got {answer!r}")
    for loop, steps in want.items():
        got = answer[loop]
        if not isinstance(got, (tuple, list)) or len(got) != 3:
            wrong(f"inner loop {loop}: expected three strides, of A, B and C; got {got!r}")
        equal(tuple(got), steps, f"inner loop {loop}, the strides of A, B and C")


@exercise
def choose_tile(answer):
    """answer(cache, size, multiple) -> the largest side of three square tiles that fit."""
    for cache, size, multiple in ((32768, 4, 1), (32768, 4, 8), (524288, 8, 16), (1200, 4, 1)):
        most = max(t for t in range(0, 2000, multiple) if 3 * t * t * size <= cache)
        what = f"{cache} bytes, {size} an element, a multiple of {multiple}"
        got = call(answer, cache, size, multiple)
        if isinstance(got, (int, float)) and 3 * got * got * size > cache:
            wrong(f"{what}: three tiles of side {got} do not fit")
        equal(got, most, f"side of the tile for {what}")
