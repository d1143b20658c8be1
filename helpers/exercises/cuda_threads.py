"""Checks behind exercises of notebook 15, whose threads exchange what they compute."""

from __future__ import annotations

import numpy as np

from helpers.exercises.core import close, equal, wrong
from helpers.exercises.kernels import (
    compiled,
    kernel_exercise,
    most_by_one,
    run,
    shared_out,
    sums_of_blocks,
)


@kernel_exercise
def packed_sum(answer):
    """packed_sum(x, total): the sums of blocks of 256, as a tree, in as few passes as can be."""
    with compiled(answer) as module:
        for blocks in (1, 3):
            record, _ = sums_of_blocks(module, "packed_sum", blocks, 256)
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


def _scanned(module, kernel, blocks, threads, size):
    """Scan blocks of random numbers: the record, x, y, the sums up to each number, and a name."""
    x = np.random.default_rng(blocks).random(size * blocks, np.float32)
    y = np.full_like(x, np.nan)
    record = run(module, kernel, blocks, threads, x, y, record=True)
    upto = x.reshape(blocks, size).cumsum(axis=1, dtype=float).ravel()
    return record, x, y, upto, f"y of {blocks} block{'s' * (blocks > 1)}"


@kernel_exercise
def warp_scan(answer):
    """warp_scan(x, y): the running sums of each block of 32, by one warp and its shuffles."""
    with compiled(answer) as module:
        for blocks in (1, 3):
            record, x, y, upto, what = _scanned(module, "warp_scan", blocks, 32, 32)
            if np.allclose(y, upto - x, rtol=1e-4, atol=1e-4):
                wrong(f"{what}: the sums lack the lane's own number; they end with it")
            close(y, upto, what, rtol=1e-4)
            if record.select(space="shared"):
                wrong(f"{what} is right, but shared memory is used: shuffles are enough")
            shared_out(record, "x", "read", 1, what)
            shared_out(record, "y", "write", 1, what)


@kernel_exercise
def private_histogram(answer):
    """private_histogram(x, bins, n): counts of bytes, a block's own bins in shared memory."""
    rng = np.random.default_rng(17)
    with compiled(answer) as module:
        for n, grid, block in ((2000, 3, 64), (1000, 1, 256), (700, 2, 320), (5, 2, 32)):
            x = rng.integers(0, 256, n).astype(np.uint8)
            x[::3] = 7  # several lanes want one bin
            bins, what = np.zeros(256, np.uint32), f"{n} bytes, {grid} blocks of {block} threads"
            record = run(module, "private_histogram", grid, block, x, bins, n, record=True)
            equal(bins, np.bincount(x, minlength=256), f"bins for {what}")
            if (made := record.count(array="bins", kind="atomic")) > 256 * grid:
                wrong(
                    f"{what}: bins is right, but the blocks make {made} atomics on it: a block "
                    "that counts in own needs at most one for each of its 256 bins"
                )
            shared_out(record, "x", "read", -(-n // (grid * block)), what)
            shared_out(record, "bins", "atomic", -(-256 // block), what)


@kernel_exercise
def my_scan(answer):
    """my_scan(x, y): exclusive scans of blocks of 256 by 128 threads, in about 2 n additions."""
    with compiled(answer) as module:
        for blocks in (1, 3):
            record, x, y, upto, what = _scanned(module, "my_scan", blocks, 128, 256)
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
