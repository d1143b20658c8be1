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
    enum Mode { ONE, TWO }; enum class Small : unsigned char { A = 3 };
    struct __align__(16) Point {
        float x = 0, y[2];
        static const int sides = 3;
        __device__ Point() {}
        __device__ float sum() const { if (x > 0) { return x + y[1]; } return y[1]; }
        __device__ void move(float by);
        int id;
    };
    __device__ void Point::move(float by) { x += by; }
    class Pair { public: float a; int b; };
    typedef float real; using count = long unsigned int;
    __device__ float one(float x) { return x; }
    __global__ void f(real *x, Point *p, Pair by);
    void __global__ __launch_bounds__(32, 1) f(real *x, Point *p, Pair by) {
        __shared__ __align__(16) float s[WIDTH];
        extern __shared__ __align__(8) char bytes[];
        __builtin_assume(x != nullptr);
        float (*function)(float) = one;
        s[threadIdx.x] = p[threadIdx.x].sum() + by.a * by.b;
        if (!threadIdx.x) { p[0].move(10); bytes[7] = '"'; printf("} // %d", p[0].id); }
        __syncthreads();
        x[threadIdx.x] = function(s[threadIdx.x]) + (bytes[7] == '"');
    }
    extern "C" {
    __global__ void __maxnreg__(64) g(int *x, Mode mode, Small small, dim3 size, \
                                      count n, int more = 3) {
        atomicCAS_block(x, 0, (int)mode);
        x[1] = (int)small; x[2] = size.y; x[3] = n; x[4] = more;
    }
    }
    """
    point = np.dtype([("x", "f4"), ("y", "f4", 2), ("id", "i4")])
    points = np.zeros(4, point)
    points["x"], points["y"][:, 1], points["id"] = 1, range(4), 7
    with Module(text, device="cpu", check=True, verify=False) as module:
        assert sorted(module) == ["f", "g"]
        x, y = np.zeros(4, np.float32), np.zeros(5, np.int32)
        module["f"][1, 4, 8](x, points, (2.0, 3))
        assert x.tolist() == [8, 9, 10, 11]
        assert points["x"].tolist() == [11, 1, 1, 1]
        module["g"][1, 1](y, 1, 3, (5, 6, 7), 8, 9)
        assert y.tolist() == [1, 3, 6, 8, 9]
        assert module["f"].source.lstrip().startswith("void __global__")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("namespace a {\n__global__ void f(int *x) {} }", r"line 2: kernel f .*namespace \(a\)"),
        ("#define K(n) \\\n __global__ void n(int *x) {}\nK(f)", "line 1: the macro K makes kern"),
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
