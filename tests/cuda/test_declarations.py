"""How kernels and types may be declared: what is read from the text, and what is refused there."""

import numpy as np
import pytest

from helpers import cuda
from helpers.cuda import Module, source


def test_what_declarations_look_like():
    text = r"""
    #define WIDTH 4 /* two \
                       lines */
    #if 0
    __global__ void dead(float **x) {}
    #endif
    struct Pair { float a; int b; };
    __device__ float one(float x) { return x; }
    __global__ void f(float *x);
    void __global__ __launch_bounds__(32, 1) f(float *x) {
        __shared__ __align__(16) float s[WIDTH];
        extern __shared__ __align__(8) char bytes[];
        __builtin_assume(x != nullptr);
        float (*function)(float) = one;
        Pair by = {2, 3};
        s[threadIdx.x] = by.a * by.b;
        if (!threadIdx.x) { bytes[7] = '"'; printf("} // %d", by.b); }
        __syncthreads();
        x[threadIdx.x] = function(s[threadIdx.x]) + (bytes[7] == '"');
    }
    extern "C" {
    __global__ void __maxnreg__(64) g(int *x, \
                                      long unsigned int n, int more = 3) {
        atomicCAS_block(x, 0, 1);
        x[1] = n; x[2] = more;
    }
    }
    """
    with Module(text, device="cpu", check=True, verify=False) as module:
        assert sorted(module) == ["f", "g"]
        x, y = np.zeros(4, np.float32), np.zeros(3, np.int32)
        module["f"][1, 4, 8](x)
        assert x.tolist() == [7] * 4
        module["g"][1, 1](y, 8, 9)
        assert y.tolist() == [1, 8, 9]
        assert module["f"].source.lstrip().startswith("void __global__")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "__global__ void f(int *x) {}\n__global__ void f(float *x) {}",
            r"line 2: another kernel is called f \(line 1\)",
        ),
        ("__global__ void f(cudaTextureObject_t t) {}", "`cudaTextureObject_t t` of kernel f"),
        ("__global__ void f(int (*x)(int)) {}", r"parameter `int \(\*x\)\(int\)` of kernel f"),
    ],
)
def test_kernels_that_no_launch_could_call(text, said):
    with pytest.raises(cuda.CompileError, match=said):
        source.kernels(text)
