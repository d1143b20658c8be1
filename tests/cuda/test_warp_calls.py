"""Warp-level calls give what CUDA's documentation says: every family, masks, widths, 4 and 8 bytes.

Expected: the CUDA C++ Programming Guide's sections on warp reduce, match, vote and shuffle
functions; for offsets of 32 and more the PTX manual's shfl.sync, which takes five bits of them.
"""

import functools
import itertools

import numpy as np
import pytest

from helpers.cuda import Module

SOURCE = """
__device__ int lane() { return threadIdx.x % 32; }
__device__ unsigned half(int split) {
    // the lanes from `split` on and those before it come to the same call with masks of their own
    unsigned below = split >= 32 ? 0xffffffffu : (1u << split) - 1;
    return lane() < split ? below : ~below;
}
__global__ void reduce(const unsigned *x, unsigned *y, int *z, int split) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    unsigned mask = half(split);
    y[i] = __reduce_add_sync(mask, x[i]);
    y[n + i] = __reduce_min_sync(mask, x[i]);
    y[2 * n + i] = __reduce_max_sync(mask, x[i]);
    y[3 * n + i] = __reduce_and_sync(mask, x[i]);
    y[4 * n + i] = __reduce_or_sync(mask, x[i]);
    y[5 * n + i] = __reduce_xor_sync(mask, x[i]);
    z[i] = __reduce_add_sync(mask, (int)x[i]);
    z[n + i] = __reduce_min_sync(mask, (int)x[i]);
    z[2 * n + i] = __reduce_max_sync(mask, (int)x[i]);
}
__global__ void vote(const int *x, int *y, unsigned *ballots, int split) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    unsigned mask = half(split);
    y[i] = __any_sync(mask, x[i]);
    y[n + i] = __all_sync(mask, x[i]);
    ballots[i] = __ballot_sync(mask, x[i]);
}
template <typename T>
__global__ void match(const T *x, unsigned *y, int *z, int split) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x, all = 7;
    unsigned mask = half(split);
    y[i] = __match_all_sync(mask, x[i], &all);
    z[i] = all;
    y[n + i] = __match_any_sync(mask, x[i]);
}
template <typename T>
__global__ void shuffle(const T *x, T *y, int by, int width) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    y[i] = __shfl_sync(0xffffffffu, x[i], by + lane(), width);
    y[n + i] = __shfl_up_sync(0xffffffffu, x[i], by, width);
    y[2 * n + i] = __shfl_down_sync(0xffffffffu, x[i], by, width);
    y[3 * n + i] = __shfl_xor_sync(0xffffffffu, x[i], by, width);
}
"""
GRID, BLOCK = 2, 80  # of two and a half warps each
N = GRID * BLOCK
SPLITS = (32, 16, 5)  # 32: one mask for the whole warp
TYPES = {"int": "i4", "unsigned": "u4", "float": "f4", "double": "f8", "long long": "i8"}


@pytest.fixture(scope="module", params=[True, False], ids=["checked", "fast"])
def module(request):
    with Module(SOURCE, device="cpu", check=request.param, verify=False) as made:
        yield made


def groups(split):
    """Return for each part of a warp that has one mask its threads' numbers."""
    whole = [
        [block * BLOCK + first + lane for lane in range(min(32, BLOCK - first))]
        for block in range(GRID)
        for first in range(0, BLOCK, 32)
    ]
    return [part for warp in whole for part in (warp[:split], warp[split:]) if part]


def each(split, call, values):
    """Return ``call`` of the values of its own group for each thread."""
    made = [None] * N
    for part in groups(split):
        for i in part:
            made[i] = call(values[part])
    return made


@pytest.mark.parametrize("split", SPLITS)
def test_reductions_with_sign_and_without(module, split):
    x = np.random.default_rng(split).integers(0, 2**32, N, dtype=np.uint32)
    y, z = np.zeros((6, N), np.uint32), np.zeros((3, N), np.int32)
    module["reduce"][GRID, BLOCK](x, y, z, split)
    for got, operation in zip(
        y, [np.add, np.minimum, np.maximum, np.bitwise_and, np.bitwise_or, np.bitwise_xor],
        strict=True,
    ):  # fmt: skip
        reduce = functools.partial(operation.reduce, dtype=np.uint32)
        assert got.tolist() == each(split, reduce, x), operation
    for got, operation in zip(z, [np.add, np.minimum, np.maximum], strict=True):
        reduce = functools.partial(operation.reduce, dtype=np.int32)
        assert got.tolist() == each(split, reduce, x.view(np.int32)), operation


@pytest.mark.parametrize("true", ["none", "one of them", "all but one", "all", "negative"])
def test_votes(module, true):
    x = np.zeros(N, np.int32) if true in ("none", "one of them") else np.full(N, 2, np.int32)
    x[35] = {"one of them": 1, "all but one": 0}.get(true, x[35])
    x[:] = -x if true == "negative" else x
    for split in SPLITS:
        y, ballots = np.zeros((2, N), np.int32), np.zeros(N, np.uint32)
        module["vote"][GRID, BLOCK](x, y, ballots, split)
        assert (y[0] != 0).tolist() == each(split, np.any, x)
        assert (y[1] != 0).tolist() == each(split, np.all, x)
        for part in groups(split):
            wanted = sum(1 << i % BLOCK % 32 for i in part if x[i])
            assert set(ballots[part].tolist()) == {wanted}


@pytest.mark.parametrize("c_type", TYPES)
@pytest.mark.parametrize("values", ["alike", "one differs", "three", "zeros of both signs"])
def test_match(module, c_type, values):
    dtype = np.dtype(TYPES[c_type])
    if values == "three":  # they differ in the first byte or in the last one
        bits = np.random.default_rng(0).choice([0, 1, 1 << (8 * dtype.itemsize - 2)], N)
        x = bits.astype(f"u{dtype.itemsize}").view(dtype)
    else:
        x = np.full(N, 0 if values == "zeros of both signs" else 3, dtype)
    if values == "one differs":
        x[35] = 4
    if values == "zeros of both signs":
        x[35] = -x[35]  # what differs is bits, not the value
    same = x.view(f"u{dtype.itemsize}")
    for split in SPLITS:
        y, z = np.zeros((2, N), np.uint32), np.zeros(N, np.int32)
        module[f"match<{c_type}>"][GRID, BLOCK](x, y, z, split)
        below = 2**split - 1
        for part in groups(split):
            mask = below if part[0] % BLOCK % 32 < split else (2**32 - 1) & ~below
            alike = len(set(same[part].tolist())) == 1
            assert set(y[0, part].tolist()) == {mask if alike else 0}
            assert set(z[part].tolist()) == {int(alike)}
            for i in part:
                assert y[1, i] == sum(1 << j % BLOCK % 32 for j in part if same[j] == same[i])


@pytest.mark.parametrize("c_type", ["int", "float", "double", "long long"])
def test_what_a_lane_without_part_gives_is_no_number_to_go_on_with(c_type):
    source = """
    template <typename T> __global__ void f(const T *x, T *y) {
        int i = threadIdx.x;
        unsigned few = __ballot_sync(~0u, i < 20);
        if (i < 20) y[i] = __shfl_down_sync(few, x[i], 16);
        if (i >= 32) y[i] = __shfl_xor_sync(~0u, x[i], 8);  // of lanes that the block lacks
    }
    """
    x = np.arange(1, 41).astype(TYPES[c_type])
    y = np.zeros_like(x)
    with Module(source, device="cpu") as made:
        made[f"f<{c_type}>"][1, 40](x, y)
    assert y[:4].tolist() == x[16:20].tolist()  # lanes 16 to 19 take part
    from_nobody = np.concatenate([y[4:16], y[32:]])
    if x.dtype.kind == "f":
        assert np.isnan(from_nobody).all()
    else:
        assert (from_nobody > 2**30).all()


def source_lane(call, lane, by, width):
    """Return the lane that shfl.sync reads, as its manual has it."""
    segment = ~(width - 1) & 31
    first, last = lane & segment, (lane & segment) | (width - 1)
    if call == "idx":
        return first | (by & 31 & ~segment)
    by &= 31
    if call == "up":
        return lane - by if lane - by >= first else lane
    found = lane + by if call == "down" else lane ^ by
    return found if found <= last else lane


@pytest.mark.parametrize("c_type", TYPES)
def test_shuffles(module, c_type):
    x = (np.random.default_rng(0).integers(1, 2**31, N) * 3).astype(TYPES[c_type])
    lanes = np.arange(N) % BLOCK % 32
    for by, width in itertools.product([0, 1, 3, 5, 16, 31, 33, -1], [32, 16, 8, 2, 1]):
        y = np.zeros((4, N), x.dtype)
        module[f"shuffle<{c_type}>"][GRID, BLOCK](x, y, by, width)
        for row, call in zip(y, ("idx", "up", "down", "xor"), strict=True):
            offsets = by + lanes if call == "idx" else [by] * N
            away = [source_lane(call, lane, k, width) - lane
                    for lane, k in zip(lanes.tolist(), offsets, strict=True)]  # fmt: skip
            source = np.arange(N) + away
            there = np.arange(N) % BLOCK + away < BLOCK  # else CUDA does not say: nobody is there
            assert row[there].tolist() == x[source[there]].tolist(), (call, by, width)
