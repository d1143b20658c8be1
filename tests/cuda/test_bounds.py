"""One element too far, or one before the first, in each kind of memory: read and written.

By one thread of many, in one block of many: the message says which.
"""

import re

import numpy as np
import pytest

from helpers import cuda
from helpers.cuda import Module

SOURCE = """
__device__ float device[8];
static __device__ float hidden[8];
__constant__ float fixed[8];
__shared__ float outside[8];

__device__ __noinline__ float get(const float *p, int i) { return p[i]; }
__device__ __noinline__ void put(float *p, int i) { p[i] = 1; }

__global__ void other(float *x) {
    __shared__ float theirs[4096];
    theirs[threadIdx.x] = x[0];
    x[0] = theirs[threadIdx.x];
}
// The thread that is to be at fault goes on, the others have done what they may.
__device__ bool innocent(int thread, int block) {
    return thread != threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z) ||
           block != blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
}
__global__ void touch(float *x, int what, int i, int thread, int block) {
    extern __shared__ float dynamic[];
    __shared__ float tile[8], neighbour[8];
    float local[8];
    for (int k = 0; k < 8; k++) local[k] = k;
    if (!threadIdx.x && !threadIdx.y && !threadIdx.z)
        for (int k = 0; k < 8; k++) {
            tile[k] = neighbour[k] = outside[k] = k;
            if (what == 10) dynamic[k] = k;
        }
    __syncthreads();
    if (innocent(thread, block) && x[1] + tile[1] + local[1] > 0) return;
    for (int k = 0; k < 8; k++) hidden[k] = k;
    float v = 0;
    switch (what) {
        case 0: v = x[i]; break;
        case 1: v = tile[i]; break;
        case 2: v = outside[i]; break;
        case 3: v = local[i]; break;
        case 4: v = device[i]; break;
        case 5: v = hidden[i]; break;
        case 6: v = fixed[i]; break;
        case 7: v = get(tile, i); break;
        case 8: v = get(device, i); break;
        case 9: v = get(fixed, i); break;
        case 10: v = dynamic[i]; break;
        case 11: x[i] = 1; break;
        case 12: tile[i] = 1; break;
        case 13: outside[i] = 1; break;
        case 14: local[i] = 1; break;
        case 15: device[i] = 1; break;
        case 16: hidden[i] = 1; break;
        case 17: dynamic[i] = 1; break;
        case 18: put(tile, i); break;
        case 19: put(device, i); break;
    }
    x[0] = v + local[i & 7] + tile[i & 7] + neighbour[0];
}
__global__ void alone(float *x, int i, int write) {
    __shared__ float own[8];
    if (threadIdx.x != 35 || blockIdx.x != 1) return;
    if (write) own[i] = 1;
    else x[0] = own[i];
}
__global__ void to_constant(const float *x) { fixed[1] = x[0]; }
__global__ void flat(float *x, int i) {
    __shared__ float square[3][3];
    square[0][i] = 1;
    x[0] = square[i / 3][i % 3];
}
"""
READ = ("x", "tile", "outside", "local", "device", "hidden", "fixed", "tile", "device", "fixed")
READ += ("dynamic",)
WRITTEN = ("x", "tile", "outside", "local", "device", "hidden", "dynamic", "tile", "device")


@pytest.fixture(scope="module")
def module():
    with Module(SOURCE, device="cpu", name="spaces.cu", check=True, verify=False) as made:
        yield made


GRID, BLOCK = (3, 2, 2), (8, 3, 2)  # blocks of a warp and a half
THREAD, PLACE = (5, 2, 1), (2, 1, 0)  # who is at fault, in the second warp


def number(at, sizes):
    return at[0] + sizes[0] * (at[1] + sizes[1] * at[2])


@pytest.mark.parametrize("index", [8, -1, 11])
@pytest.mark.parametrize(("what", "array"), [*enumerate(READ + WRITTEN)])
def test_one_element_too_far(module, what, array, index):
    x = np.ones(8, np.float32)
    launch = module["touch"][GRID, BLOCK, 32 if array == "dynamic" else 0]
    who = number(THREAD, BLOCK), number(PLACE, GRID)
    launch(x, what, 7, *who)  # the last one is inside
    with pytest.raises(cuda.BoundsError) as caught:
        launch(x, what, index, *who)
    message = str(caught.value)
    done = "read" if what < len(READ) else "wrote"  # or touched, the index of a local one
    where = re.escape(f"thread {THREAD} of block {PLACE} ")
    assert re.match(rf"{where}({done}|touched) {array}\[{index}\], outside {array}", message), (
        message
    )
    rows = SOURCE.splitlines()
    line = next(n for n, row in enumerate(rows, 1) if f"case {what}:" in row)
    if "get(" in rows[line - 1] or "put(" in rows[line - 1]:
        assert "return p[i]" in message if done == "read" else "p[i] = 1" in message
    else:
        assert caught.value.line == line


def test_a_row_may_be_left_as_long_as_the_array_is_not(module):
    x = np.zeros(1, np.float32)
    module["flat"][1, 1](x, 5)
    assert x[0] == 1
    with pytest.raises(
        cuda.BoundsError, match=r"wrote square\[3\]\[0\], outside square \(36 bytes"
    ):
        module["flat"][1, 1](x, 9)


@pytest.mark.parametrize("done", ["read", "wrote"])
@pytest.mark.parametrize("index", [40, 200, -30, -1000])
def test_another_kernels_array_is_out_of_bounds_too(module, done, index):
    who = r"thread \(35, 0, 0\) of block \(1, 0, 0\)"
    with pytest.raises(cuda.BoundsError, match=rf"^{who} {done} own\[{index}\], outside own"):
        module["alone"][3, 64](np.zeros(1, np.float32), index, done == "wrote")


def test_a_constant_is_only_read(module):
    with pytest.raises(cuda.KernelError, match="wrote to fixed, which the kernel may only read"):
        module["to_constant"][1, 1](np.zeros(1, np.float32))


def test_dynamic_shared_memory_that_the_launch_forgot(module):
    with pytest.raises(cuda.BoundsError, match=r"wrote dynamic\[0\], outside dynamic \(0 bytes"):
        module["touch"][1, 1](np.zeros(8, np.float32), 17, 0, 0, 0)


MISALIGNED = """
struct alignas(8) Pair { float a, b; };
__global__ void f(float *x, int what) {
    float *odd = x + 1;
    if (threadIdx.x != 33 || blockIdx.y != 1) return;
    if (what == 0) { float4 v = *(float4 *)odd; x[0] = v.x + v.y + v.z + v.w; }
    if (what == 1) *(float4 *)odd = make_float4(1, 2, 3, 4);
    if (what == 2) x[0] = ((float2 *)odd)->y;
    if (what == 3) x[0] = __ldg((const float4 *)odd).x;
    if (what == 4) __stcs((float2 *)odd, make_float2(1, 2));
    if (what == 5) x[0] = ((double *)odd)[0];
    if (what == 6) ((Pair *)odd)->a = 1;
    if (what == 7) atomicAdd((unsigned long long *)odd, 1ull);
    if (what == 8) { float4 v = *(float4 *)(x + 4); *(float2 *)(x + 2) = make_float2(v.x, v.w); }
}
"""


def test_vectors_begin_at_a_multiple_of_their_size():
    with Module(MISALIGNED, device="cpu", check=True, verify=False) as module:
        x = np.zeros(16, np.float32)
        for what in range(8):
            with pytest.raises(cuda.KernelError, match=r"byte 4 of x: misaligned") as caught:
                module["f"][(1, 2), 64](x, what)
            assert "thread (33, 0, 0) of block (0, 1, 0) touched" in str(caught.value)
            assert caught.value.line == 6 + what
        module["f"][(1, 2), 64](x, 8)


MANY_REGISTERS = """
__global__ void f(float *x) {
    float a[120];
    for (int i = 0; i < 120; i++) a[i] = x[i];
    for (int k = 0; k < 50; k++)
        for (int i = 0; i < 119; i++) a[i] += a[i + 1] * a[119 - i];
    for (int i = 0; i < 120; i++) x[i] = a[i];
}
"""


def test_registers_limit_a_block():
    with Module(MANY_REGISTERS, device="cpu") as module:
        if not module["f"].resources:
            pytest.skip(module.note)
        used = module["f"].resources.registers
        assert used > 64
        most = 65_536 // (-(-32 * used // 256) * 256) * 32
        x = np.zeros(120, np.float32)
        with pytest.raises(cuda.LaunchError, match=f"{used} registers each.*allow at most {most}"):
            module["f"][1, most + 1](x)
        module["f"][1, most](x)
