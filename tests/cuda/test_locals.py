"""Local variables: overrun through a pointer, read before they have a value."""

import numpy as np
import pytest

from helpers import cuda
from helpers.machine.compilers import has_compiler

pytestmark = pytest.mark.skipif(not has_compiler("C++"), reason="no C++ compiler")


def run(source, *arguments, check=True, threads=32):
    with cuda.Module(source, device="cpu", verify=False) as module:
        module["k"][1, threads](*arguments, check=check)


THROUGH_A_POINTER = """
struct quad {{ float a[2]; }};
__device__ {0} void write(float *p, int i) {{ p[i] = 1; }}
__device__ {0} float read(const float *p, int i) {{ return p[i]; }}
__device__ {0} void whole(float *p, int i) {{ *(quad *)(p + i) = quad{{{{1, 1}}}}; }}
__global__ void k(float *x, int what, int i) {{
    float s[4] = {{1, 2, 3, 4}};
    if (threadIdx.x == 5 && what == 0) write(s, i);
    if (threadIdx.x == 5 && what == 1) s[1] = read(s, i);
    if (threadIdx.x == 5 && what == 2) whole(s, i);
    x[threadIdx.x] = s[threadIdx.x % 4];
}}"""


@pytest.mark.parametrize("call", ["", "__noinline__", "__forceinline__"])
def test_a_pointer_to_a_local_array_leaves_it(call):
    # Beyond its end. What lies before its beginning the compiler takes for a part of a larger one.
    x = np.zeros(32, np.float32)
    with cuda.Module(THROUGH_A_POINTER.format(call), device="cpu", verify=False) as module:
        launch = module["k"][1, 32]
        for what, index in ((0, 4), (0, 1000), (1, 4), (2, 3)):
            with pytest.raises(cuda.BoundsError, match=r"thread \(5, 0, 0\) of block") as caught:
                launch(x, what, index, check=True)
            assert "outside the local variable" in str(caught.value)
            assert ("read" if what == 1 else "wrote") in str(caught.value)
            assert caught.value.line == 3 + what
        for what, index, expected in ((0, 1, 1), (1, 3, 4), (2, 1, 1)):  # within
            launch(x, what, index, check=True)
            assert x[5] == expected


def test_a_function_that_calls_itself_and_a_pointer_to_a_pointer():
    source = """
    __device__ int sum(const int *p, int n) { return n ? p[n - 1] + sum(p, n - 1) : 0; }
    __global__ void k(int *x) {
        int a[3] = {1, 2, 3}, b[2] = {10, 20};
        int *both[2] = {a, b};
        x[threadIdx.x] = sum(both[threadIdx.x % 2], 2);
    }"""
    x = np.zeros(4, np.int32)
    run(source, x, threads=4)
    assert x.tolist() == [3, 30, 3, 30]


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("float s;\nfor (int i = 0; i < 4; i++)\n    s += x[i];\nx[0] = s;", 4),
        ("float s[4];\ns[0] = 1;\nx[threadIdx.x] = s[1];", 4),
        ("int at;\nx[at] = 0;", 3),
    ],
)
def test_a_local_variable_without_a_value(body, line):
    x = np.zeros(32, np.float32)
    source = f"__global__ void k(float *x) {{\n{body}\n}}"
    with pytest.raises(
        cuda.UninitialisedError, match=f"line {line}: .*before it has a value"
    ) as it:
        run(source, x)
    assert it.value.line == line


@pytest.mark.parametrize(
    "body",
    [
        "float v; if (threadIdx.x < 16) v = x[1]; __syncthreads(); if (threadIdx.x < 16) x[2] = v;",
        "float last; for (int i = 0; i < 3; i++) { if (i) x[i] += last; last = x[i]; }",
        "float s[4]; for (int i = 0; i < 4; i++) s[i] = i; x[threadIdx.x] = s[threadIdx.x % 4];",
        "float4 v; v.x = 1; v.y = 2; if (threadIdx.x == 0) x[0] = v.x + v.y;",
    ],
)
def test_no_false_alarm_on_a_value_that_comes_later(body):
    source = f"__global__ void k(float *x) {{ if (threadIdx.x > 31) return; {body} }}"
    source = source.replace("__syncthreads();", "__syncwarp();")
    try:
        run(source, np.zeros(64, np.float32))
    except cuda.UninitialisedError as error:
        pytest.fail(str(error))
    except cuda.RaceError:
        pass  # another matter
