"""Passes of warps: what can be counted by hand, and what the recorder counts in another way."""

import numpy as np
import pytest

from helpers import cuda
from helpers.cuda import Module
from helpers.cuda.warps import meetings, together


def run(*ways):
    """Return each pass as its piece and the lanes that work, lane 0 first."""
    passes = together(ways, meetings(ways))
    return [
        f"{piece} {''.join(str(lanes >> i & 1) for i in range(len(ways)))}"
        for piece, lanes in passes
    ]


@pytest.mark.parametrize(
    ("ways", "passes"),
    [
        (["abc", "abc"], ["a 11", "b 11", "c 11"]),
        # if and else; nested, the inner one in the first branch only
        (["tod", "ted"], ["t 11", "o 10", "e 01", "d 11"]),
        (
            ["tuabd", "tuacbd", "ted", "tuabd"],
            ["t 1111", "u 1101", "a 1101", "c 0100", "b 1101", "e 0010", "d 1111"],
        ),
        # a loop with 1, 3 and no turns: as many passes as the longest has
        (["hxhd", "hxhxhxhd", "hd"],
         ["h 111", "x 110", "h 110", "x 010", "h 010", "x 010", "h 010", "d 111"]),
        # a loop in a loop: 2 and 1 turns, then 1 and 2; the lanes meet after each outer turn
        (["oiixoixd", "oixoiixd"],
         ["o 11", "i 11", "i 10", "x 11", "o 11", "i 11", "i 01", "x 11", "d 11"]),
        # an early return, alone and inside a branch whose other lanes go on
        (["t", "twv"], ["t 11", "w 01", "v 01"]),
        (["tr", "trxw", "tyw"], ["t 111", "r 110", "x 010", "y 001", "w 011"]),
        # a return out of the last loop, and continue
        (["hxh", "hx", "hxhxh"], ["h 111", "x 111", "h 101", "x 001", "h 001"]),
        # the last code is a loop with a branch
        (["hpahpbh", "hpbhpah", "hpah"], ["h 111", "p 111", "a 101", "b 010", "h 111", "p 110",
                                          "b 100", "a 010", "h 110"]),
    ],
)  # fmt: skip
def test_lanes_part_and_meet_again(ways, passes):
    assert run(*ways) == passes


KERNELS = """
__global__ void parting(const float *x, float *y, int group, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    if (threadIdx.x / group % 2)
        for (int k = 0; k < 8; k++)
            v = 0.5f * v + 1;    // odd
    else
        for (int k = 0; k < 8; k++)
            v = v * v - 0.5f;    // even
    y[i] = v;
}
__device__ int called(int t) {
    int s = 0;
    while (t > 0) {
        s += t; t--;             // called
    }
    return s;
}
__global__ void trips(int *y) {
    y[threadIdx.x] = called(threadIdx.x % 4);
}
__global__ void interleaved(const float *x, float *total) {
    __shared__ float part[256];
    int t = threadIdx.x;
    part[t] = x[t];
    for (int step = 1; step < 256; step *= 2) {
        __syncthreads();
        if (t % (2 * step) == 0)
            part[t] += part[t + step];  // interleaved
    }
    if (t == 0) *total = part[0];
}
__global__ void endless(int *x) {
    while (threadIdx.x < 64) x[0] = 1;
}
__global__ void outside(int *x) {
    x[threadIdx.x + 10000] = 1;
}
"""


@pytest.fixture(scope="module")
def module():
    with Module(KERNELS, device="cpu", verify=False) as made:
        yield made


@pytest.mark.parametrize(("group", "odd", "even"), [(1, 2, 2), (16, 2, 2), (32, 1, 1), (64, 0, 2)])
def test_a_branch_costs_a_warp_both_paths_only_where_its_lanes_part(module, group, odd, even):
    x, y = np.linspace(0, 1, 192, dtype=np.float32), np.zeros(192, np.float32)
    record = module["parting"][3, 64].warps(x, y, group, 192)  # of two warps each
    assert record.count(record.line("// odd")) == 3 * 8 * odd
    assert record.count(record.line("// even")) == 3 * 8 * even
    both = record.line("// odd"), record.line("// even")
    assert 32 * record.count(*both) - record.idle(*both) == 192 * 8  # the work is the same
    want, number = x.copy(), np.arange(192) % 64 // group % 2
    for _ in range(8):
        want = np.where(number, np.float32(0.5) * want + 1, want * want - np.float32(0.5))
    np.testing.assert_allclose(y, want, rtol=1e-5)


def test_lanes_that_returned_or_are_not_there_are_idle(module):
    x, y = np.ones(96, np.float32), np.zeros(96, np.float32)
    record = module["parting"][2, 48].warps(x, y, 64, 90)  # 6 of 96 return, 2 × 16 are not there
    line = record.line("float v")
    assert (record.count(line), record.idle(line)) == (4, 2 * 16 + 6)
    assert (y[:90] != 0).all()
    assert (y[90:] == 0).all()


def test_a_loop_of_different_lengths_in_a_function(module):
    record = module["trips"][1, 32].warps(y := np.zeros(32, np.int32))
    line = record.line("// called")
    assert (record.count(line), record.idle(line)) == (3, 3 * 32 - 8 * (1 + 2 + 3))
    assert y.tolist() == [0, 1, 3, 6] * 8


def test_a_warps_passes_are_the_recorders_requests(module):
    x, total = np.arange(256, dtype=np.float32), np.zeros(1, np.float32)
    launch = module["interleaved"][1, 256]
    record, accesses = launch.warps(x, total), launch.record(x, total)
    line = record.line("// interleaved")
    (write,) = accesses.select(array="part", kind="write", line=line)
    assert record.count(line) == write.requests == 5 * 8 + 4 + 2 + 1
    assert 32 * record.count(line) - record.idle(line) == write.count == 255
    assert total[0] == x.sum()


def test_the_table_says_it_line_by_line(module):
    x = np.zeros(64, np.float32)
    text = str(module["parting"][1, 64].warps(x, x.copy(), 1, 64))
    assert "parting: grid (1, 1, 1), block (64, 1, 1)" in text
    assert "   8       16    256   50%              v = 0.5f * v + 1;    // odd" in text
    assert "}" not in text


def test_a_text_of_no_line_or_of_several(module):
    x = np.zeros(64, np.float32)
    record = module["parting"][1, 64].warps(x, x.copy(), 1, 64)
    with pytest.raises(ValueError, match="0 lines hold 'nowhere'"):
        record.line("nowhere")
    with pytest.raises(ValueError, match="lines hold '__global__'; one must"):
        record.line("__global__")


def test_faults_and_limits_are_reported(module):
    x = np.zeros(64, np.int32)
    with pytest.raises(cuda.BoundsError, match="outside x"):
        module["outside"][1, 32].warps(x)
    with pytest.raises(cuda.KernelTimeoutError):
        module["endless"][1, 32].warps(x, timeout=0.3)
    y = np.zeros(64, np.float32)
    with pytest.raises(cuda.LaunchError, match="more than 100 pieces"):
        module["parting"][1, 64].warps(y, y.copy(), 1, 64, limit=100)
    assert (x == 0).all()
    assert module["parting"][1, 64].warps(y, y.copy(), 1, 64).count() > 0  # and goes on


def test_passes_without_known_lines_are_refused_not_counted_as_none(module, monkeypatch):
    monkeypatch.setattr("helpers.cuda.cpu.symbols.shutil.which", lambda name: None)
    x = np.zeros(64, np.float32)
    with pytest.raises(cuda.LaunchError, match=r"kernel parting: no line .* install binutils"):
        module["parting"][1, 64].warps(x, x.copy(), 1, 64)


def test_a_kernel_without_code_has_lines():
    with Module("__global__ void idle(float *x) {\n}\n", device="cpu") as made:
        made["idle"][1, 64].warps(np.zeros(64, np.float32))
