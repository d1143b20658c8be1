"""CUDA C that people bring: what is taken, what is refused, and in which sentence."""

import numpy as np
import pytest

from helpers import cuda
from helpers.cuda import Module

F = np.float32

# body of f(T *y), the type of y, what it becomes
EXPRESSIONS = {
    "INFINITY": ("y[0] = INFINITY; y[1] = -INFINITY;", "float", [np.inf, -np.inf]),
    "NAN": ("y[0] = NAN != NAN; y[1] = INT_MAX > 0;", "float", [1, 1]),
    "M_PI": ("y[0] = M_PI; y[1] = FLT_MAX;", "float", [F(np.pi), np.finfo(F).max]),
    "int8_t": ("int8_t a = 200; uint16_t b = 7; y[0] = a; y[1] = b;", "int", [-56, 7]),
    "__dp4a": (
        "y[0] = __dp4a(0x01ff0203, 0x02020202, 5); y[1] = __dp4a(0xff000001u, 2u, 1u);",
        "int",
        [5 + 2 * (1 - 1 + 2 + 3), 3],
    ),
    "rhypotf": ("y[0] = rhypotf(3, 4); y[1] = norm3df(1, 2, 2);", "float", [F(0.2), 3]),
    "math_constants.h": (
        "\n#include <math_constants.h>\n__global__ void f(float *y) { y[0] = CUDART_INF_F; "
        "y[1] = CUDART_PI_F; }",
        "float",
        [np.inf, F(np.pi)],
    ),
    "half": (
        "\n#include <cuda_fp16.h>\n__global__ void f(float *y) { half2 v = {1.0f, 2.0f};\n"
        "half2 e = h2exp(v); half2 m = __hmax2(v, __float2half2_rn(1.5f));\n"
        "y[0] = __high2float(m) + __low2float(m); y[1] = __low2float(e) == (float)hexp(1.0f); }",
        "float",
        [3.5, 1],
    ),
    "atomicAdd of half": (
        "\n#include <cuda_fp16.h>\n__global__ void f(float *y) { __shared__ half s; "
        "__shared__ half2 p;\ns = 1.0f; p = __float2half2_rn(0.5f); atomicAdd(&s, half(2.0f));\n"
        "atomicAdd(&p, __float2half2_rn(1.0f)); y[0] = s; y[1] = __high2float(p); }",
        "float",
        [3, 1.5],
    ),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_what_nvcc_takes_without_a_word(name):
    body, c_type, want = EXPRESSIONS[name]
    text = body if "__global__" in body else f"__global__ void f({c_type} *y) {{ {body} }}"
    y = np.zeros(2, {"float": F, "int": np.int32}[c_type])
    with Module(text, device="cpu", check=True) as module:
        module["f"][1, 1](y)
        assert not module.note
    assert y.tolist() == want


def test_headers_of_the_c_library_keep_the_compilers_report():
    names = ("math.h", "cmath", "stdint.h", "stdio.h", "stdlib.h", "limits.h")
    text = "".join(f"#include <{name}>\n" for name in names)
    text += "__global__ void f(float *y) { y[0] = sinf(y[0]); }"
    with Module(text, device="cpu") as module:
        assert not module.note or "not installed" in module.note
        assert module.note or module["f"].resources.registers > 0


def test_parameters_of_two_dimensions():
    declared = ("float a[N][N]", "float b[][4]", "float (*c)[4]", "float (* d)[N]")
    text = "#define N 4\n" + "".join(
        f"__global__ void f{x}({one}) {{ {x}[threadIdx.y][threadIdx.x] += 1; }}\n"
        for x, one in zip("abcd", declared, strict=True)
    )
    with Module(text, device="cpu", check=True) as module:
        for x in "abcd":
            array = np.arange(16, dtype=F).reshape(4, 4)
            module[f"f{x}"][1, (4, 4)](array)
            assert np.array_equal(array.ravel(), np.arange(1, 17))
            with pytest.raises(cuda.BoundsError, match=rf"{x}\[4\]\[0\], outside {x} \(16 elem"):
                module[f"f{x}"][1, (4, 5)](array)


POINT = np.dtype([("a", "f4"), ("n", "i4")], align=True)
CONSTANTS = {
    "after the type": ("float __constant__ c[2];", "c[1]", np.array([1, 5], F)),
    "several with values": ("__constant__ int b = 0, c[2] = {1, 2};", "b + c[1]", np.int32([1, 5])),
    "struct": ("struct P { float a; int n; };\n__constant__ P c;", "c.a * c.n",
               np.array((2.5, 2), POINT)),
    "aligned": ("static __constant__ __align__(16) float c[4];", "c[3]", np.array([0, 0, 0, 5], F)),
    "two dimensions": ("#define S 2\n__constant__ float c[S][S];", "c[1][0]",
                       np.array([[0, 0], [5, 0]], F)),
    "a number": ("__constant__ int c;", "c", 5),
    "a number of NumPy's": ("__constant__ float c;", "c", np.float64(5)),
}  # fmt: skip


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_however_they_are_declared(name):
    declared, expression, value = CONSTANTS[name]
    text = f"{declared}\n__global__ void f(float *y) {{ y[0] = {expression}; }}"
    with Module(text, device="cpu", check=True) as module:
        module.constant("c", value)
        module["f"][1, 1](y := np.zeros(1, F))
    assert y[0] == 5


def test_launch_bounds_are_read_and_enforced():
    text = (
        "#define A 4\n#define B (A * 4)\n__global__ void __launch_bounds__((A) * (B + 0), (1)) "
        "f(int *y) { y[threadIdx.x] = 1; }"
    )
    with Module(text, device="cpu") as module:
        y = np.zeros(128, np.int32)
        module["f"][1, 64](y)
        assert y.sum() == 64
        with pytest.raises(
            cuda.LaunchError, match=r"has 128 threads; .* kernel f allow at most 64"
        ):
            module["f"][1, 128](y)


NUMBERS = {  # of a kernel's parameter: what fits, and what does not, whosever it is
    "int": ([np.int64(7)], [np.int64(3 * 2**30), np.prod((50000, 50000)), 3 * 2**30]),
    "unsigned": ([np.int8(7)], [np.int64(-1), np.int32(-1)]),
    "char": ([], [np.int64(300)]),
    "unsigned char": ([], [np.int16(-1)]),
    "float": ([np.float64("inf"), float("nan"), 2**100], [1e300, np.float64(1e300)]),
    "double": ([1e300], []),
    "long long": ([np.int64(-(2**62))], []),
    "int3": ([], [(np.int64(3 * 2**30), 1, 1), (3 * 2**30, 1, 1)]),
}


def test_numbers_are_taken_where_they_fit_and_only_there():
    text = "".join(
        f"__global__ void f{k}({c} n, double *y) {{ y[0] = n{'.x' * (c == 'int3')}; }}\n"
        for k, c in enumerate(NUMBERS)
    )
    with Module(text, device="cpu", verify=False) as module:
        for k, (fit, others) in enumerate(NUMBERS.values()):
            launch, y = module[f"f{k}"][1, 1], np.zeros(1)
            for value in fit:
                launch(value, y)
                np.testing.assert_allclose(y[0], float(value))
            for value in others:
                with pytest.raises(
                    cuda.LaunchError, match=r"argument 1 .* (does not fit|expected)"
                ):
                    launch(value, y)


KERNEL = "__global__ void f(int *x) { x[0] = 1; }\n"
REFUSED = {
    "a whole program": (KERNEL + "int main() { int *d; cudaMalloc(&d, 4); f<<<1, 1>>>(d); }",
                        r"line 2: this is a whole program: leave main\(\) out, .* kernel\[grid, b"),
    "a launch": (KERNEL + "void go(int *d) { f<<<1, 1>>>(d); }",
                 r"line 2: a launch stands in Python here: write kernel\[grid, block\]"),
    "dynamic parallelism": (KERNEL + "__global__ void g(int *x) { f<<<1, 1>>>(x); }",
                            r"line 2: .*dynamic parallelism\) are not taken"),
    "a texture": (KERNEL + "__global__ void g(cudaTextureObject_t t, float *y) "
                  "{ y[0] = tex2D<float>(t, 0, 0); }",
                  "line 2: textures and surfaces are not taken: pass the array"),
    "80 kB of constants": ("__constant__ float t[20000];\n" + KERNEL,
                           "the __constant__ variables take 80000 bytes; a device has 65536"),
    "malloc": ("__global__ void f(int *x) { int *p = (int *)malloc(4); p[0] = 1; free(p); }",
               "line 1: accesses to memory from malloc or new cannot be checked"),
    "new": ("__global__ void f(int *x) {\nint *p = new int[4]; delete[] p; }",
            "line 2: accesses to memory from malloc or new cannot be checked"),
    "float **": ("__global__ void f(float **a) { a[0][0] = 1; }",
                 r"for rows and columns write \*a, or a\[\]\[width\]"),
}  # fmt: skip


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_one_sentence(name, verify):
    text, said = REFUSED[name]
    with pytest.raises(cuda.CompileError, match=said) as raised:
        Module(text, device="cpu", check=True, verify=verify)
    assert str(raised.value).count("\n") <= 1


def test_constants_of_types_that_numpy_does_not_have_are_named():
    text = "__constant__ struct { float a; int n; } c;\n__global__ void f(float *y) { y[0] = c.a; }"
    said = "constant c is of a type that NumPy does not"
    with Module(text, device="cpu") as module, pytest.raises(cuda.LaunchError, match=said):
        module.constant("c", np.zeros(1, F))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("x[0] = 1;", r"x\[0\] .* in one step: let a single thread write there"),
        ("x[0] += 1;", r"x\[0\] .* between the reading and the wri"),
    ],
)
def test_races_name_a_cure_and_the_place(body, said):
    text = f"__global__ void f(int *x) {{ {body} }}"
    with Module(text, device="cpu") as module, pytest.raises(cuda.RaceError, match=said):
        module["f"][1, 32](np.zeros(32, np.int32), check=True)


SIZES = [
    "const int N = 8;",
    "enum { N = 8 };",
    "enum Size : int { ONE = 1, N = 8 * ONE };",
    "const int ROWS = 2, N = 4 * ROWS;",
    "#define N 8",
    "template <int N>",
]


@pytest.mark.parametrize(("first", "kind"), [*zip(SIZES, ["float", "float4"] * 3, strict=True)])
def test_a_place_of_two_dimensions_is_named_by_both(first, kind):
    source = f"""{first}
    __global__ void f(float *y) {{
        __shared__ {kind} tile[2][N];
        *(float *)&tile[threadIdx.x / 8][threadIdx.x % 8] = 1;
        y[threadIdx.x] = *(float *)&tile[1][5];
    }}
    """
    name = "f<8>" if "template" in first else "f"
    with (
        Module(source, device="cpu", check=True, verify=False) as module,
        pytest.raises(cuda.CudaError, match=r"tile\[1\]\[5\] in shared memory"),
    ):
        module[name][1, 16](np.zeros(16, F))
