"""Each fault that a GPU would hide, planted: the message names thread, place and line."""

import os
import time

import numpy as np
import pytest

from helpers import cuda
from helpers.cuda import Module


def module(source, **options):
    return Module(source, device="cpu", name="planted.cu", **options)


def floats(n, value=0.0):
    return np.full(n, value, np.float32)


def test_out_of_bounds_names_thread_index_array_and_shape_and_nothing_is_written():
    source = """
    __global__ void shift(float *x) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        x[i + 1] = i;
    }
    """
    x = np.zeros((4, 16), np.float32)
    with pytest.raises(cuda.BoundsError) as caught:
        module(source)["shift"][2, 32](x, check=True)
    message = str(caught.value)
    assert "thread (31, 0, 0) of block (1, 0, 0) wrote x[64]" in message
    assert "64 elements of float32, shape 4 × 16" in message
    assert caught.value.line == 4
    assert "x[i + 1] = i;" in message
    assert not x.any()


def test_an_address_of_no_array():
    source = "__global__ void f(float *x) { *(float *)16 = x[0]; }"
    m = module(source)
    for check in (False, True):
        with pytest.raises(cuda.BoundsError, match="address 0x10, which belongs to no array"):
            m["f"][1, 1](floats(1), check=check)


@pytest.mark.parametrize(("writer", "reader"), [(1, 0), (0, 1)])
def test_shared_memory_that_nobody_of_the_block_wrote(writer, reader):
    """Neither does what an earlier block left there count."""
    source = """
    __global__ void f(float *y, int writer) {
        __shared__ float tile[32];
        if (blockIdx.x == writer) tile[threadIdx.x] = 1;
        __syncthreads();
        y[blockIdx.x * 32 + threadIdx.x] = tile[threadIdx.x];
    }
    """
    match = rf"thread \(0, 0, 0\) of block \({reader}, 0, 0\).* tile\[0\]"
    with pytest.raises(cuda.UninitialisedError, match=match) as caught:
        module(source)["f"][2, 32](floats(64), writer, check=True)
    assert caught.value.line == 6


def test_race_in_shared_memory_names_both_threads_and_lines():
    source = """
    __global__ void neighbour(const float *x, float *y) {
        __shared__ float tile[64];
        tile[threadIdx.x] = x[threadIdx.x];
        y[threadIdx.x] = tile[threadIdx.x ? threadIdx.x - 1 : 0];
        tile[threadIdx.x] = 0;
    }
    """
    with pytest.raises(cuda.RaceError) as caught:
        module(source)["neighbour"][1, 64](floats(64), floats(64), check=True)
    message = str(caught.value)
    assert "race on tile[0] in shared memory" in message
    assert "thread (0, 0, 0) of block (0, 0, 0) wrote it at line 6" in message
    assert "thread (1, 0, 0) of block (0, 0, 0) read it at line 5" in message
    assert "no __syncthreads()" in message


@pytest.mark.parametrize("check", [False, True])
def test_a_barrier_that_half_a_block_reaches_is_always_caught(check):
    source = """
    __global__ void half(float *y) {
        if (threadIdx.x < 32)
            __syncthreads();
        y[threadIdx.x] = 1;
    }
    """
    with pytest.raises(cuda.BarrierError) as caught:
        module(source)["half"][3, 64](floats(64), check=check, timeout=20)
    message = str(caught.value)
    assert "32 of 64 threads wait for their block at __syncthreads() of line 4" in message
    assert "thread (32, 0, 0) has ended, for example" in message
    assert caught.value.line == 4


@pytest.mark.parametrize(
    ("each", "other", "where"),
    [
        ("__syncthreads()", "__syncthreads()", "another call of line 4"),
        ("__syncthreads()", "\n__syncthreads()", "line 4"),
        ("y[i] = __syncthreads_count(1)", "__syncthreads()", "another call of line 4"),
        ("y[i] = __shfl_sync(~0u, i, 0)", "y[i] = __shfl_sync(~0u, i, 1)", "another call of line"),
        ("__syncwarp()", "y[i] = __any_sync(~0u, i)", "another call of line 4"),
    ],
)
def test_two_calls_are_two_places_on_one_line_too(each, other, where):
    source = """
    __global__ void two(int *y) {
        int i = threadIdx.x;
        if (i %% 2) %s; else %s;
    }
    """
    y = np.zeros(32, np.int32)
    with pytest.raises(cuda.BarrierError, match=f"waits at {where}") as caught:
        module(source % (each, other))["two"][1, 32](y, check=True)
    assert "16 of 32 threads wait" in str(caught.value)


def test_one_call_is_one_place_however_it_is_reached():
    source = """
    #define MEET __syncthreads()
    __device__ int meet(int x) { int y = __syncthreads_count(x); return __shfl_sync(~0u, y, x); }
    template <int N> __device__ int more(int x) { __syncthreads(); return meet(x) + N; }
    __global__ void one(int *y) {
        int i = threadIdx.x, sum = 0;
        for (int k = 0; k < 3; k++) { MEET; sum += k; MEET; }
        y[i] = sum + meet(i) + more<1>(i) + more<20>(__shfl_sync(~0u, __shfl_sync(~0u, i, 1), 2));
    }
    """
    y = np.zeros(32, np.int32)
    module(source)["one"][1, 32](y, check=True)
    assert y.tolist() == [3 + 31 + 31 + 1 + 32 + 20] * 32


def test_a_shuffle_that_half_a_warp_misses():
    source = """
    __global__ void f(int *y) {
        if (threadIdx.x < 16)
            y[threadIdx.x] = __shfl_down_sync(0xffffffff, y[threadIdx.x], 1);
    }
    """
    with pytest.raises(cuda.BarrierError, match="16 of 32 threads wait for their warp"):
        module(source)["f"][1, 32](np.zeros(32, np.int32))


@pytest.mark.parametrize("check", [False, True])
def test_an_endless_kernel_is_stopped_and_says_where_it_was(check):
    source = """
    __global__ void endless(volatile int *x) {
        while (x[0] == 0) {
        }
    }
    """
    m = module(source)
    begin = time.monotonic()
    with pytest.raises(cuda.KernelTimeoutError, match=r"within 0\.5 s and was stopped") as caught:
        m["endless"][1, 4](np.zeros(1, np.int32), check=check, timeout=0.5)
    assert time.monotonic() - begin < 20  # stopped by the limit, not by the test's
    assert caught.value.line in (3, 4) or check
    m["endless"][1, 4](np.ones(1, np.int32))


def test_a_worker_killed_from_outside_is_replaced():
    source = "__global__ void f(float *x) { x[threadIdx.x] += 1; }"
    m = module(source)
    x = floats(4)
    m["f"][1, 4](x)
    (first,) = m.processes
    os.kill(first, 9)
    while m.processes:
        time.sleep(0.01)
    m["f"][1, 4](x)
    assert x.tolist() == [2, 2, 2, 2]
    (second,) = m.processes
    assert second != first


def test_a_wild_write_without_checks_ends_the_worker_and_the_next_has_the_constants():
    source = """
    __constant__ float scale[1];
    __global__ void f(float *x, int i) { x[i] = scale[0]; }
    """
    m = module(source)
    m.constant("scale", floats(1, 7))
    x = floats(4)
    with pytest.raises(cuda.BoundsError, match=r"x\[100000000\].*\n.*x\[i\] = scale"):
        m["f"][1, 1](x, 100_000_000)
    m["f"][1, 1](x, 2)
    assert x[2] == 7


def test_division_by_zero_assert_and_a_stack_too_deep():
    source = """
    __device__ int depth(int n) { volatile int room[256]; room[n & 255] = n;
                                  return n ? depth(n - 1) + room[n & 255] : 0; }
    __global__ void f(int *x, int what) {
        if (what == 0) x[0] = 7 / x[0];
        if (what == 1) assert(x[0] == 1);
        if (what == 2) x[0] = depth(100000);
    }
    """
    m = module(source)
    for what, message in enumerate(("by zero", r"assert\(x\[0\] == 1\) failed at line 6", "local")):
        with pytest.raises(cuda.KernelError, match=message):
            m["f"][1, 1](np.zeros(1, np.int32), what)
