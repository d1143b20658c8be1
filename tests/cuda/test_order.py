"""Locks, flags and counters order threads as barriers do; without a fence they do not."""

import numpy as np
import pytest

from helpers import cuda
from helpers.cuda import Module

LOCK = """
__device__ int lock = 0;
__global__ void spin(int *total) {
    while (atomicCAS(&lock, 0, 1) != 0) {
    }
    __threadfence();
    *total += 1;
    FENCE;
    atomicExch(&lock, 0);
}
__global__ void retry(int *total) {
    for (bool done = false; !done;)
        if (atomicExch(&lock, 1) == 0) {
            *total += 1;
            FENCE;
            atomicExch(&lock, 0);
            done = true;
        }
}
"""
LAST_BLOCK = """
__device__ unsigned int blocks_done = 0;
__global__ void sum(const float *x, float *partial, float *total) {
    __shared__ float s[64];
    __shared__ bool last;
    s[threadIdx.x] = x[blockIdx.x * 64 + threadIdx.x];
    __syncthreads();
    for (int step = 32; step; step /= 2) {
        if (threadIdx.x < step) s[threadIdx.x] += s[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = s[0];
        FENCE;
        last = atomicInc(&blocks_done, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0)
        for (int block = 0; block < gridDim.x; block++) *total += partial[block];
}
"""
FLAG = """
__global__ void volatile_flag(volatile int *flag, float *x) {
    if (threadIdx.x < 32) {
        while (*flag == 0) {
        }
        __threadfence();
        x[1 + threadIdx.x] = x[0];
    } else if (threadIdx.x == 32) {
        x[0] = 7;
        FENCE;
        *flag = 1;
    }
}
__global__ void atomic_flag(int *flag, float *x) {
    __shared__ int ready;
    if (threadIdx.x == 0) ready = 0;
    __syncthreads();
    if (threadIdx.x < 32) {
        while (atomicAdd(&ready, 0) == 0) {
        }
        x[1 + threadIdx.x] = x[0] + flag[0];
    } else if (threadIdx.x == 32) {
        x[0] = 7;
        FENCE;
        atomicExch(&ready, 1);
    }
}
"""


def zeros(n, dtype=np.float32):
    return np.zeros(n, dtype)


WAYS = {  # source, grid and block, arguments, which of them holds what, what is raced for
    "spin": (LOCK, (4, 48), lambda: [zeros(1, np.int32)], 0, [4 * 48], "total"),
    "retry": (LOCK, (4, 48), lambda: [zeros(1, np.int32)], 0, [4 * 48], "total"),
    "sum": (LAST_BLOCK, (20, 64), lambda: [zeros(1280) + 1, zeros(20), zeros(1)], 2, [1280],
            "partial"),
    "volatile_flag": (FLAG, (1, 64), lambda: [zeros(1, np.int32), zeros(33)], 1, [7] * 33,
                      r"x\[0\] in global memory"),
    "atomic_flag": (FLAG, (1, 64), lambda: [zeros(1, np.int32), zeros(33)], 1, [7] * 33,
                    r"x\[0\] in global memory"),
}  # fmt: skip


@pytest.mark.parametrize("kernel", WAYS)
def test_threads_in_an_order_without_a_barrier(kernel):
    source, shape, arguments, which, want, raced = WAYS[kernel]
    options = {"device": "cpu", "verify": False, "timeout": 60}
    with Module(source, {"FENCE": "__threadfence()"}, **options) as good:
        for check in (True, False):
            given = arguments()
            good[kernel][shape](*given, check=check)
            assert given[which].tolist() == want
    with (
        Module(source, {"FENCE": ""}, **options) as bad,
        pytest.raises(cuda.RaceError, match=f"race on {raced}"),
    ):
        bad[kernel][shape](*arguments(), check=True)


def test_the_loop_of_compare_and_swap_is_no_race_but_a_plain_read_is():
    source = """
    __global__ void add(double *x) {
        unsigned long long *bits = (unsigned long long *)x, old = *bits, assumed;
        do {
            assumed = old;
            old = atomicCAS(bits, assumed, __double_as_longlong(1 + __longlong_as_double(assumed)));
        } while (assumed != old);
    }
    __global__ void peek(int *x, int *y) {
        atomicAdd(x, 1);
        y[threadIdx.x] = *x;
    }
    """
    with Module(source, device="cpu", check=True, verify=False) as module:
        for _ in range(60):  # on several processors the blocks meet in another way each time
            x = np.zeros(1)
            module["add"][3, 40](x)
            assert x[0] == 120
        for blocks in (1, 3):
            with pytest.raises(cuda.RaceError, match="race on x"):
                module["peek"][blocks, 40](np.zeros(1, np.int32), np.zeros(40, np.int32))


def test_lanes_in_step_without_a_barrier_are_a_race_volatile_or_not():
    source = """
    __global__ void f(float *x) {
        volatile __shared__ float s[32];
        s[threadIdx.x] = 1;
        __syncwarp();
        if (threadIdx.x < 16) {
            s[threadIdx.x] += s[threadIdx.x + 16];
            s[threadIdx.x] += s[threadIdx.x + 8];
        }
        x[threadIdx.x] = s[threadIdx.x];
    }
    """
    with (
        Module(source, device="cpu", check=True, verify=False) as module,
        pytest.raises(cuda.RaceError, match=r"race on s\[8\]"),
    ):
        module["f"][1, 32](np.zeros(32, np.float32))


def test_a_race_on_a_device_variable():
    source = "__device__ int n; __global__ void f(int *x) { n += 1; x[0] = n; }"
    with (
        Module(source, device="cpu", check=True, verify=False) as module,
        pytest.raises(cuda.RaceError, match=r"race on n\[0\] in global memory"),
    ):
        module["f"][2, 1](np.zeros(1, np.int32))


@pytest.mark.parametrize(
    ("barrier", "together"), [("", 1), ("__syncwarp()", 32), ("__syncthreads()", 64)]
)
def test_a_write_after_many_reads_races_with_each_that_no_barrier_orders(barrier, together):
    source = """
    __global__ void f(float *x, float *y, int first, int last, int writer) {
        __shared__ float s;
        int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
        if (t == 0) s = 1;
        __syncthreads();
        if (i >= first && i < last) y[i] = x[0] + s;
        %s;
        if (i == writer) x[0] = s = 2;
    }
    """
    y = np.zeros(128, np.float32)
    triples = [(first, first + n, (first + n * k) % 128) for first in (0, 5, 31, 64, 90)
               for n in (1, 2, 20, 38) for k in (0, 2, 5)]  # fmt: skip
    with Module(source % barrier, device="cpu", check=True, threads=1, verify=False) as module:
        for first, last, writer in triples:
            unordered = {i for i in range(first, last) if i // together != writer // together}
            try:
                module["f"][2, 64](np.zeros(1, np.float32), y, first, last, writer)
                raced = False
            except cuda.RaceError:
                raced = True
            assert raced == bool(unordered - {writer}), (first, last, writer)
