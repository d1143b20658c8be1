"""Local variables: overrun through a pointer, read before they have a value."""

import contextlib
import itertools
import re

import numpy as np
import pytest

from helpers import cuda


def run(source, x, threads=32):
    with cuda.Module(source, device="cpu", verify=False) as module:
        module["k"][1, threads](x, check=True)


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
    x = np.zeros(32, np.float32)
    with cuda.Module(THROUGH_A_POINTER.format(call), device="cpu", verify=False) as module:
        launch = module["k"][1, 32]
        for what, index in itertools.product((0, 1, 2), (-1, -2, 4, 5)):
            with pytest.raises(cuda.BoundsError, match=r"thread \(5, 0, 0\) of block") as caught:
                launch(x, what, index, check=True)
            said = rf"bytes {4 * index} to \S+ of s, outside the local variable s of 16 bytes"
            assert re.search(said, str(caught.value))
            assert ("read" if what == 1 else "wrote") in str(caught.value)
            assert caught.value.line == 3 + what
        for index in (3, 1000):  # a part of it outside; far away, where another frame may be
            with pytest.raises(cuda.BoundsError, match="outside the local variable"):
                launch(x, 2, index, check=True)
        for what, index, expected in ((0, 1, 1), (1, 3, 4), (2, 1, 1)):  # within
            launch(x, what, index, check=True)
            assert x[5] == expected


BESIDE = """
__device__ int first(const int *p, int i, int deep) { return deep ? first(p, i, deep - 1) : p[i]; }
__global__ void k(int *x, int what, int i) {
    int before[2] = {1, 2}, s[3] = {3, 4, 5}, after[2] = {6, 7};
    int *both[2] = {before, s};
    float4 v = make_float4(1, 2, 3, 4);
    float *component = &v.x;
    if (what == 0) x[0] = first(s, i, 3);
    if (what == 1) x[0] = both[1][i];
    if (what == 2) component[i] = 1;
    x[1] = before[1] + after[0] + (int)v.y;
    printf("once");
}"""


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("what", "line", "size"), [(0, 2, 3), (1, 9, 3), (2, 10, 4)])
def test_the_neighbour_of_a_local_variable_is_not_taken_for_it(what, line, size, threads, capsys):
    x = np.zeros(2, np.int32)
    with cuda.Module(BESIDE, device="cpu", verify=False, threads=threads) as module:
        for index in (-1, size):
            with pytest.raises(cuda.BoundsError, match=r"outside the local variable [sv] ") as it:
                module["k"][4, 1](x, what, index, check=True)
            assert it.value.line == line
            assert "thread (0, 0, 0) of block (0, 0, 0)" in str(it.value)
        assert not x.any()
        capsys.readouterr()
        module["k"][1, 1](x, what, 0, check=True)
        assert capsys.readouterr().out == "once"  # though two programs ran
        module["k"][1, 1].record(x, what, size - 1)


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
        "float v; if (threadIdx.x < 16) v = x[1]; __syncwarp(); if (threadIdx.x < 16) x[2] = v;",
        "float last; for (int i = 0; i < 3; i++) { if (i) x[i] += last; last = x[i]; }",
        "float s[4]; for (int i = 0; i < 4; i++) s[i] = i; x[threadIdx.x] = s[threadIdx.x % 4];",
        "float4 v; v.x = 1; v.y = 2; if (threadIdx.x == 0) x[0] = v.x + v.y;",
    ],
)
def test_no_false_alarm_on_a_value_that_comes_later(body):
    source = f"__global__ void k(float *x) {{ if (threadIdx.x > 31) return; {body} }}"
    with contextlib.suppress(cuda.RaceError):  # another matter
        run(source, np.zeros(64, np.float32))
