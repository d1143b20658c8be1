"""CUDA C that a GPU compiles runs here, or is refused by the name of what is missing."""

import numpy as np
import pytest

from helpers import cuda
from helpers.cuda import Module, source
from helpers.cuda.gpu import nvrtc

LANES = np.arange(32)


def run(text, *arguments, kernel="f", grid=1, block=32, check=True):
    """Run one kernel and return its first argument."""
    with Module(text, device="cpu", check=check) as module:
        module[kernel][grid, block](*arguments)
    return arguments[0]


def zeros(dtype, n=32):
    return np.zeros(n, dtype)


def test_a_template_of_a_kernel():
    text = """
    __constant__ float offset[1];
    template <typename T, int N>
    __global__ void scale(T *y, const T *x, T by) {
        y[threadIdx.x] = by * x[threadIdx.x] + N + offset[0];
    }
    """
    with Module(text, device="cpu", check=True) as module:
        module.constant("offset", np.ones(1, np.float32))
        for c_type, dtype in (("float", np.float32), ("double", np.float64), ("int", np.int32)):
            y = np.zeros(32, dtype)
            module[f"scale< {c_type},4 >"][1, 32](y, LANES.astype(dtype), 2)
            assert y.tolist() == (2 * LANES + 5).tolist()
        assert sorted(module) == ["scale<double,4>", "scale<float,4>", "scale<int,4>"]
        with pytest.raises(KeyError, match=r"it has .*scale<T, N>"):
            module["scale"]
        with pytest.raises(cuda.LaunchError, match="expected float32"):
            module["scale<float, 4>"][1, 32](np.zeros(32), np.zeros(32), 2)
    assert source.templates(text) == {"scale": ("T", "N")}


TURNED = """
template <int C> __device__ void turn(float *y) {
    __shared__ float s[32 * C];
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    y[threadIdx.x] = s[31 - threadIdx.x + %d];
}
__global__ void f(float *y) { turn<2>(y); }
"""


def test_shared_arrays_of_a_template_are_recorded_and_guarded():
    with Module(TURNED % 0, device="cpu") as module:
        record = module["f"][1, 32].record(y := zeros(np.float32))
        assert y.tolist() == LANES[::-1].tolist()
        assert record.requested_bytes(space="shared", kind="read") == 4 * 32
    with (
        Module(TURNED % 64, device="cpu", check=True) as module,
        pytest.raises(cuda.BoundsError, match=r"\[95\], outside .*float \[64\] at line 6"),
    ):
        module["f"][1, 32](zeros(np.float32))


def test_half_precision_is_rounded_as_numpy_rounds_it():
    text = """
    #include <cuda_fp16.h>
    __global__ void f(__half *sum, half *product, __half *quotient, float *wide, half *narrow,
                      const __half *a, const __half *b, half c) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        sum[i] = a[i] + b[i];
        product[i] = __hmul(a[i], b[i]) * c;
        quotient[i] = a[i] / b[i];
        wide[i] = __half2float(a[i]);
        narrow[i] = __float2half(1.0001f * __half2float(b[i]));
    }
    __global__ void pairs(half2 *x) { x[1] = __hfma2(x[1], x[1], x[0]); }
    """
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 16, (2, 4096), dtype=np.uint16)
    bits[:, :8] = [[0, 1, 0x3FF, 0x400, 0x7BFF, 0x7C00, 0x8001, 0xFC00]] * 2  # the edges
    a, b = bits.view(np.float16)
    made = [zeros(np.float16, 4096) for _ in range(3)]
    wide, narrow = zeros(np.float32, 4096), zeros(np.float16, 4096)
    run(text, *made, wide, narrow, a, b, 3.0, grid=32, block=128)
    with np.errstate(all="ignore"):
        wanted = [a + b, (a * b) * np.float16(3), a / b]
        scaled = (np.float32(1.0001) * b.astype(np.float32)).astype(np.float16)
    for got, want in zip(
        [*made, wide, narrow], [*wanted, a.astype(np.float32), scaled], strict=True
    ):
        assert np.array_equal(got, want, equal_nan=True)
    x = np.arange(8, dtype=np.float16)
    run(text, x, kernel="pairs", block=1)
    assert x.tolist() == [0, 1, 2 * 2 + 0, 3 * 3 + 1, 4, 5, 6, 7]


def test_all_atomics():
    text = """
    __global__ void f(unsigned *x, unsigned long long *y, double *z) {
        unsigned bit = 1u << threadIdx.x;
        atomicOr(x, bit);
        atomicXor(x + 1, bit);
        atomicAnd(x + 2, ~bit);
        atomicInc(x + 3, 20);
        atomicDec(x + 4, 20);
        atomicMax(x + 5, threadIdx.x);
        atomicAdd_block(x + 6, 2u);
        atomicMin(x + 7, 5 + threadIdx.x);
        atomicOr(y, (unsigned long long)bit << 32);
        atomicAdd(z, 0.5);
        for (unsigned long long old = 0, seen; (seen = atomicCAS(y + 1, old, old + 3)) != old;)
            old = seen;
    }
    """
    x = np.array([0, 0, 2**32 - 1, 0, 0, 0, 0, 9], np.uint32)
    y, z = zeros(np.uint64, 2), zeros(np.float64, 1)
    run(text, x, y, z)
    assert x.tolist() == [2**32 - 1, 2**32 - 1, 0, 32 - 21, 21 - 32 % 21, 31, 64, 5]
    assert y.tolist() == [(2**32 - 1) << 32, 96]
    assert z[0] == 16


def test_cooperative_groups():
    text = """
    #include <cooperative_groups.h>
    #include <cooperative_groups/reduce.h>
    namespace cg = cooperative_groups;
    __global__ void f(float *sums, int *ranks, unsigned *votes) {
        __shared__ float s[64];
        cg::thread_block block = cg::this_thread_block();
        cg::thread_block_tile<16> tile = cg::tiled_partition<16>(block);
        int i = block.thread_rank();
        s[i] = i;
        block.sync();
        sums[i] = cg::reduce(tile, s[i ^ 1], cg::plus<float>());
        votes[i] = tile.ballot(tile.thread_rank() < 4);
        if (i % 4 == 0) {
            cg::coalesced_group here = cg::coalesced_threads();
            ranks[i] = 100 * here.size() + here.thread_rank();
        }
        cg::sync(block);
        ranks[i] += tile.shfl(tile.meta_group_rank(), 0);
    }
    """
    ranks, votes = zeros(np.int32, 64), zeros(np.uint32, 64)
    sums = run(text, zeros(np.float32, 64), ranks, votes, block=64)
    assert sums.tolist() == np.repeat(np.arange(64).reshape(4, 16).sum(1), 16).tolist()
    assert set(votes) == {15}
    wanted = np.arange(64) // 16 + np.where(
        np.arange(64) % 4 == 0, 800 + np.arange(64) % 32 // 4, 0
    )
    assert ranks.tolist() == wanted.tolist()


def test_arithmetic_that_cuda_has_and_c_has_not():
    text = """
    __global__ void f(int *x, float *y) {
        x[0] = min(7, blockDim.x * 1u);
        x[1] = max(-1, 3u);
        x[2] = __float_as_int(1.0f);
        x[3] = (int)__brev(1u);
        x[4] = __clzll(1ll) + __popcll(7ull) + __ffsll(8ll);
        x[5] = (int)__umulhi(1u << 31, 6u);
        x[6] = __float2int_rn(2.5f);
        y[0] = __sinf(1.0f);
        y[1] = __powf(2.0f, 10.0f);
        y[2] = __fdividef(1.0f, 4.0f) + rsqrtf(4.0f);
        __nanosleep(1);
        y[3] = clock64() > 0;
    }
    """
    y = zeros(np.float32, 4)
    x = run(text, zeros(np.int32, 7), y, block=1)
    assert x.tolist() == [1, -1, 0x3F800000, -(2**31), 63 + 3 + 4, 3, 2]
    assert np.allclose(y, [np.sin(1), 1024, 0.75, 1])


def test_any_name_of_a_kernel():
    names = "a launch fail read write exit current gamma index stdin remove signal environ block"
    text = "".join(f"__global__ void {n}(int *x) {{ x[0] += 1; }}\n" for n in names.split())
    with Module(text, device="cpu", check=True) as module:
        for name in names.split():
            module[name][1, 1](x := zeros(np.int32))
            assert x[0] == 1


def test_five_kernels_of_40_kilobytes_each_and_arrays_outside_functions():
    text = "__shared__ float outside[32];\n" + "".join(
        f"__global__ void k{n}(float *x) {{ __shared__ float s[10000]; s[threadIdx.x] = {n};"
        " outside[threadIdx.x] = s[threadIdx.x]; x[threadIdx.x] = outside[threadIdx.x]; }\n"
        for n in range(5)
    )
    with Module(text, device="cpu", check=True) as module:
        for n in range(5):
            x = zeros(np.float32)
            module[f"k{n}"][1, 32](x)
            assert set(x) == {n}
        with pytest.raises(cuda.LaunchError, match=r"k0 asks for 40\d\d\d bytes of static"):
            module["k0"][1, 32, 150_000](zeros(np.float32))


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("#include <cuda_pipeline.h>\n__global__ void f(float *x) {}", "no cuda_pipeline.h"),
        ("__global__ void f(unsigned *x) { x[0] = __vadd4(x[0], x[1]); }", "it has no __vadd4"),
        ('__global__ void f(int *x) { asm("mov.u32 %0, %%laneid;" : "=r"(x[0])); }', "asm"),
        ('__global__ void f(int *x) { asm volatile("bar.sync 0;"); }', "inline PTX.*`bar.sync 0;`"),
        (
            "#include <cooperative_groups.h>\n__global__ void f(float *x) {\n"
            "  auto grid = cooperative_groups::this_grid();\n  grid.sync();\n}",
            r"(?s)line 4: .*no sync\(\) of a grid",
        ),
        ("__global__ void f(float **x) {}", r"`float \*\*x` of kernel f .* write \*x"),
    ],
)
def test_what_is_missing_is_named(text, missing):
    with pytest.raises(cuda.CompileError, match=missing) as caught:
        Module(text, device="cpu")
    if "it has no" in missing and not nvrtc.missing():
        assert "a GPU runs this source, the CPU runner does not" in str(caught.value)
