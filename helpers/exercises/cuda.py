"""Checks behind exercises of notebooks 05 and 14: kernels run on the CPU, accesses checked."""

from __future__ import annotations

import numpy as np

from helpers.cuda.record import serialized_of
from helpers.exercises.core import call, close, equal, exercise, wrong
from helpers.exercises.kernels import (
    compiled,
    kernel_exercise,
    most_by_one,
    read_once,
    run,
    shared_out,
    sums_of_blocks,
)


@kernel_exercise
def axpy(answer):
    """axpy(a, x, y, n): y = a x + y, for any n and any grid that covers it, an element a thread."""
    with compiled(answer) as module:
        rng = np.random.default_rng(0)
        for a, n, grid, block in ((2.5, 64, 2, 32), (-1.5, 1, 1, 32), (2.5, 100, 4, 32),
                                  (0.5, 33, 3, 16)):  # fmt: skip
            x, y = rng.standard_normal((2, n)).astype(np.float32)
            want = a * x + y
            what = f"a = {a}, {n} elements, {grid} blocks of {block}"
            record = run(module, "axpy", grid, block, a, x, y, n, record=True)
            close(y, want, f"y for {what}", rtol=1e-5, atol=1e-6)
            shared_out(record, "y", "write", 1, what)


@kernel_exercise
def moving_average(answer):
    """moving_average(x, y, n): y[i] = mean of x[i-2 .. i+2], zeros outside, through a tile."""
    with compiled(answer) as module:
        rng = np.random.default_rng(1)
        for n in (64, 100, 7, 1):
            x, y = rng.standard_normal(n).astype(np.float32), np.zeros(n, np.float32)
            grid = -(-n // 32)
            record = run(module, "moving_average", grid, 32, x, y, n, record=True)
            want = np.convolve(np.pad(x, 2), np.full(5, 0.2), "valid")
            close(y, want, f"y for {n} elements", rtol=1e-4, atol=1e-5)
            shared_out(record, "x", "read", 2, f"{n} elements")
            read_once(record, "x", f"{n} elements")


@kernel_exercise
def brighten(answer, high=32):
    """brighten(image, out, height, width): out = 1.2 image, each warp's access coalesced."""
    with compiled(answer) as module:
        for height, width in ((64, 64), (33, 70)):
            image = np.random.default_rng(2).random((height, width), np.float32)
            out = np.zeros_like(image)
            grid = (-(-width // 32), -(-height // high))
            record = run(module, "brighten", grid, (32, high), image, out, height, width,
                          record=True)  # fmt: skip
            close(out, 1.2 * image, f"out for {height} × {width}", rtol=1e-5, atol=1e-6)
            shared_out(record, "out", "write", 1, f"{height} × {width}")
            worst = max(access.worst for access in record.select(space="global"))
            if height == 64 and worst > 4:
                wrong(
                    f"the numbers are right, but one warp's access touches {worst} sectors of 32 "
                    "bytes to move 128 bytes"
                )


@kernel_exercise
def reverse_blocks(answer):
    """reverse_blocks(x, n): each block of 64 elements turned round, through shared memory."""
    with compiled(answer) as module:
        for n in (64, 256, 100):
            x = np.arange(n, dtype=np.float32)
            want = np.concatenate([part[::-1] for part in np.split(x, range(64, n, 64))])
            run(module, "reverse_blocks", -(-n // 64), 64, x, n)
            close(x, want, f"x for {n} elements", rtol=0, atol=0)


@kernel_exercise
def tree_sum(answer):
    """tree_sum(x, total): the sums of blocks of 64, as a tree, without a race."""
    with compiled(answer) as module:
        for blocks in (1, 3):
            record, what = sums_of_blocks(module, "tree_sum", blocks, 64)
            shared_out(record, "x", "read", 1, what)
            most = most_by_one(record.picked(array="part", kind="read"))
            if most > 16:  # two for each addition, and the result
                wrong(
                    f"the sums are right, but one thread reads part {most} times: in a tree it "
                    "takes part once in a step, and each step leaves fewer numbers to add"
                )
            made = [record.picked(array="part", kind=kind) for kind in ("write", "atomic")]
            in_sequence = serialized_of(np.concatenate(made)) // blocks - 2  # less: part filled
            if in_sequence > 12:  # two warps, six steps
                wrong(
                    f"the sums are right, but {in_sequence} additions of a block come one after "
                    "another: in each step of a tree, half of the remaining numbers are added to "
                    "the other half at once"
                )


@kernel_exercise
def my_convolution(answer):
    """my_convolution(image, filter, out, height, width): 5 × 5, zeros outside, through a tile."""
    from scipy.ndimage import correlate

    rng = np.random.default_rng(9)
    with compiled(answer) as module:
        for height, width in ((16, 64), (33, 50), (5, 7)):
            image = rng.random((height, width), np.float32)
            weights = rng.standard_normal((5, 5)).astype(np.float32)
            out = np.full_like(image, np.nan)
            grid = (-(-width // 32), -(-height // 8))
            what = f"{height} × {width}"
            want = correlate(image, weights, mode="constant")
            record = run(module, "my_convolution", grid, (32, 8), image, weights, out, height,
                          width, record=True)  # fmt: skip
            close(out, want, f"out for {what}", rtol=1e-4, atol=1e-4)
            reads, least = record.count(array="image", kind="read"), _tile_reads(height, width)
            if reads > least:
                wrong(
                    f"{what}: out is right, but image was read {reads} times: with a tile, each "
                    "block reads each of its pixels once"
                )
            shared_out(record, "image", "read", 4, what)  # of 12 × 36, in strides of 8 × 32
            shared_out(record, "out", "write", 1, what)


def _tile_reads(height: int, width: int) -> int:
    """Pixels inside the image of all tiles of 12 × 36, whose blocks make 8 × 32 outputs."""
    rows, columns = (
        sum(min(first + side + 2, n) - max(first - 2, 0) for first in range(0, n, side))
        for n, side in ((height, 8), (width, 32))
    )
    return rows * columns


@exercise
def wavefronts(answer):
    """answer(columns) -> wavefronts in which 32 lanes read a column of tile[32][columns]."""
    for columns in (32, 33, 34, 36, 40, 48, 64, 31):
        banks = [lane * columns % 32 for lane in range(32)]
        want = max(banks.count(bank) for bank in banks)
        equal(call(answer, columns), want, f"wavefronts for rows of {columns} floats")


@exercise
def resident_warps(answer, arch="sm_80"):
    """answer(threads, registers, shared) -> warps on a multiprocessor at a time, of an A100."""
    from helpers.cuda.occupancy import occupancy

    for threads, registers, shared in (
        (256, 32, 1728),  # threads
        (32, 32, 384),  # blocks
        (256, 64, 1728),  # registers
        (384, 40, 0),  # registers, in whole blocks
        (128, 32, 48 * 1024),  # shared memory
        (128, 32, 20 * 1024),  # the same, by the system's share
        (1024, 40, 4096),  # registers, one block
    ):
        want = occupancy(threads, registers, shared, arch).warps
        what = f"warps of blocks of {threads} threads, {registers} registers, {shared} bytes"
        equal(call(answer, threads, registers, shared), want, what)
