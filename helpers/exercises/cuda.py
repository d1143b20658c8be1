"""Checks behind exercises of notebooks 05, 14 and 15: kernels run on the CPU, accesses checked."""

from __future__ import annotations

import numpy as np

from helpers.cuda.record import turns_of
from helpers.exercises.core import call, close, equal, exercise, wrong
from helpers.exercises.kernels import (
    compiled,
    kernel_exercise,
    most_by_one,
    read_once,
    run,
    shared_out,
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


def _sums_of_blocks(module, kernel, blocks, size):
    """Run a kernel that sums blocks of random numbers; refuse wrong sums."""
    x = np.random.default_rng(blocks).random(size * blocks, np.float32)
    total = np.full(blocks, np.nan, np.float32)
    record = run(module, kernel, blocks, size, x, total, record=True)
    what = f"total of {blocks} block{'s' * (blocks > 1)}"
    close(total, x.reshape(blocks, size).sum(axis=1), what, rtol=1e-5)
    return record, what


@kernel_exercise
def tree_sum(answer):
    """tree_sum(x, total): the sums of blocks of 64, as a tree, without a race."""
    with compiled(answer) as module:
        for blocks in (1, 3):
            record, what = _sums_of_blocks(module, "tree_sum", blocks, 64)
            shared_out(record, "x", "read", 1, what)
            most = most_by_one(record.picked(array="part", kind="read"))
            if most > 16:  # two for each addition, and the result
                wrong(
                    f"the sums are right, but one thread reads part {most} times: in a tree it "
                    "takes part once in a step, and each step leaves fewer numbers to add"
                )
            made = [record.picked(array="part", kind=kind) for kind in ("write", "atomic")]
            turns = turns_of(np.concatenate(made)) // blocks - 2  # less: part filled
            if turns > 12:  # two warps, six steps
                wrong(
                    f"the sums are right, but the block's additions take {turns} turns, one after "
                    "another: in a tree each step makes half of what is left to add at a time"
                )


@kernel_exercise
def packed_sum(answer):
    """packed_sum(x, total): the sums of blocks of 256, as a tree, in as few passes as can be."""
    with compiled(answer) as module:
        for blocks in (1, 3):
            record, _ = _sums_of_blocks(module, "packed_sum", blocks, 256)
            reads = record.picked(array="part", kind="read")
            most = most_by_one(reads)
            if most > 17:  # two for each addition, and the result
                wrong(
                    f"the sums are right, but one thread reads part {most} times: in each step a "
                    "thread makes one addition at most"
                )
            warps = np.stack([reads["block"], reads["interval"], reads["thread"] // 32])
            passes = np.unique(warps, axis=1).shape[1] // blocks
            if passes > 12:  # 128 additions in 4 warps, then half as many until one is left
                wrong(
                    f"the sums are right, but the warps of a block make {passes} passes to add: "
                    "in each step, the threads that add can be neighbours"
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


@kernel_exercise
def my_scan(answer):
    """my_scan(x, y): exclusive scans of blocks of 256 by 128 threads, in about 2 n additions."""
    with compiled(answer) as module:
        for blocks in (1, 3):
            x = np.random.default_rng(blocks).random(256 * blocks, np.float32)
            y = np.full_like(x, np.nan)
            record = run(module, "my_scan", blocks, 128, x, y, record=True)
            upto = x.reshape(blocks, 256).cumsum(axis=1, dtype=float).ravel()
            what = f"y of {blocks} block{'s' * (blocks > 1)}"
            if np.allclose(y, upto, rtol=1e-4):
                wrong(f"{what}: each sum holds its own number too, not only those before it")
            close(y, upto - x, what, rtol=1e-4, atol=1e-4)
            events = record.picked(kind="read")
            most = most_by_one(events)
            if most > 64 or len(events) > 9 * x.size:
                wrong(
                    f"{what} is right, but the threads read {len(events)} numbers, one of them "
                    f"{most}: a way down over the same pairs as the way up reads far fewer"
                )


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
