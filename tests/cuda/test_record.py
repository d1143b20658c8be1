"""What the recorder counts equals the arithmetic of each kernel."""

import numpy as np
import pytest

from helpers import cuda
from helpers.cuda import Module
from helpers.cuda.ladder import Convolution
from helpers.cuda.record import serialized

H, W, K = 64, 96, 5


@pytest.fixture(scope="module")
def records():
    image = np.random.default_rng(0).random((H, W), np.float32)
    convolution = Convolution(np.ones((K, K)), "replicate", device="cpu")
    found = {rung: convolution.record(image, rung) for rung in ("global", "tiled", "rows")}
    found["constant"] = convolution.record(image, "constant", blocks=[4])
    convolution.module.close()
    return found


def test_the_first_rung_reads_image_and_filter_for_every_product(records):
    record = records["global"]
    assert record.count(array="image", kind="read") == H * W * K * K
    assert record.count(array="filter", kind="read") == H * W * K * K
    assert record.count(array="out", kind="write") == H * W
    assert record.requested_bytes(space="global") == 4 * H * W * (2 * K * K + 1)
    assert record.touched == {"image": (4 * H * W, 0), "out": (0, 4 * H * W),
                              "filter": (4 * K * K, 0)}  # fmt: skip


def test_constant_memory_takes_the_filters_traffic(records):
    record = records["constant"]
    assert record.count(space="constant", array="weights") == H * W * K * K
    assert not record.select(array="filter")


def test_a_tile_is_loaded_once_with_its_halo(records):
    record = records["tiled"]
    blocks = (H // 8) * (W // 32)
    tile = (8 + K - 1) * (32 + K - 1)
    assert record.count(array="image", kind="read") == blocks * tile
    assert record.count(array="tile", kind="write") == blocks * tile
    assert record.count(array="tile", kind="read") == H * W * K * K
    reads = record.select(array="tile", kind="read")
    assert sum(a.conflicts for a in reads) == 0  # a warp reads 32 neighbours of one row
    loads = record.picked(array="tile", kind="write", block=0)
    assert np.array_equal(np.sort(record.elements(loads)), np.arange(tile))
    assert set(loads["interval"]) == {0}
    used = record.picked(array="tile", kind="read", block=0)
    assert set(used["interval"]) == {1}


def test_streamed_rows_read_each_row_in_quads(records):
    record = records["rows"]
    quads = [a for a in record.select(array="image", kind="read") if a.size == 16]
    assert quads
    assert record.count(array="out", kind="write") < H * W  # four at a time where it can
    written = record.requested_bytes(array="out", kind="write")
    assert written == 4 * H * W


def test_events_of_chosen_blocks_only(records):
    record = records["constant"]
    assert set(record.events["block"]) == {4}
    assert record.complete
    assert len(record.picked(array="image")) == 8 * 32 * K * K


COPY = """
__global__ void copy(const float *x, float *y, int stride, int offset) {
    y[threadIdx.x] = x[threadIdx.x * stride + offset];
}
"""


@pytest.fixture(scope="module")
def copy():
    with Module(COPY, device="cpu") as module:
        yield module["copy"]


@pytest.mark.parametrize(
    ("stride", "offset", "sectors"),
    [(1, 0, 4), (1, 1, 5), (2, 0, 8), (8, 0, 32), (31, 0, 32), (0, 0, 1)],
)
def test_sectors_of_a_warps_load(copy, stride, offset, sectors):
    x, y = np.zeros(1024, np.float32), np.zeros(32, np.float32)
    record = copy[1, 32].record(x, y, stride, offset)
    (load,) = record.select(array="x")
    assert (load.requests, load.sectors, load.worst, load.line) == (1, sectors, sectors, 3)


@pytest.mark.parametrize(("stride", "passes"), [(0, 1), (1, 1), (2, 2), (3, 1), (32, 32), (33, 1)])
def test_bank_conflicts(stride, passes):
    text = f"""
    __global__ void f(float *y) {{
        __shared__ float tile[{32 * 33 + 1}];
        tile[threadIdx.x * {stride} + (threadIdx.x * {int(stride == 0)})] = 1;
        __syncthreads();
        y[threadIdx.x] = tile[threadIdx.x * {stride}];
    }}
    """
    with Module(text, device="cpu") as module:
        record = module["f"][1, 32].record(np.zeros(32, np.float32))
    (load,) = record.select(array="tile", kind="read")
    assert (load.wavefronts, load.conflicts) == (passes, passes - 1)


def test_the_transpose_of_the_course_needs_its_padding():
    matrix, out = np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32)
    conflicts = {}
    for pad in (0, 1):
        with Module("access.cu", {"PAD": pad}, device="cpu") as module:
            record = module["transpose"][(2, 2), (32, 8)].record(matrix, out, 64, 64)
        conflicts[pad] = sum(a.conflicts for a in record.select(space="shared"))
        assert record.sector_bytes(space="global") == record.requested_bytes(space="global")
    assert conflicts == {0: 128 * 31, 1: 0}


@pytest.mark.parametrize(("n", "pad"), [(2, 0), (64, 0), (64, 1), (256, 0)])
def test_the_scans_of_the_course_are_sums_by_the_additions_they_promise(n, pad):
    x = np.random.default_rng(n).random(2 * n, np.float32)
    upto = x.reshape(2, n).cumsum(axis=1).ravel()
    reads = {}
    for name, threads, want in (("scan_steps", n, upto), ("scan_tree", n // 2, upto - x)):
        y = np.full_like(x, np.nan)
        with Module("scan.cu", {"N": n, "PAD": pad}, device="cpu") as module:
            record = module[name][2, threads].record(x, y)
        np.testing.assert_allclose(y, want, atol=1e-4)
        reads[name] = record.count(array="part", kind="read") / 2  # of a block
    # An addition reads two numbers, and y one more each; a compiler may read one again or not.
    steps, additions = n.bit_length() - 1, 2 * (n - 1)
    assert 0 <= reads["scan_steps"] - (2 * n * steps - (n - 1)) <= n
    assert 0 <= reads["scan_tree"] - 2 * additions <= n + (n - 1)


def test_records_are_cut_at_their_limit_and_say_so(copy):
    x, y = np.zeros(1024, np.float32), np.zeros(32, np.float32)
    record = copy[1, 32].record(x, y, 1, 0, limit=10)
    assert len(record.events) == 10
    assert not record.complete
    assert record.count(array="x") == 32


def test_a_block_that_is_not_there(copy):
    x, y = np.zeros(1024, np.float32), np.zeros(32, np.float32)
    with pytest.raises(cuda.LaunchError, match="block 5 is not one of this grid's 1"):
        copy[1, 32].record(x, y, 1, 0, blocks=[5])


def test_the_table_reads_well(copy):
    record = copy[1, 32].record(np.zeros(64, np.float32), np.zeros(32, np.float32), 1, 0)
    text = str(record)
    assert "copy: grid (1, 1, 1), block (32, 1, 1)" in text
    assert "   3  global   x            read           32         128" in text


def test_requests_of_one_line_have_numbers_of_their_own():
    text = "__global__ void f(int *y) { int t = threadIdx.x; if (t % 2) atomicAdd(&y[t / 8], 1);"
    text += " else atomicAdd(&y[20 + t / 16], 1); }"
    with Module(text, device="cpu", verify=False) as module:
        record = module["f"][2, 64].record(np.zeros(32, np.int32))
    (access,) = record.select(array="y", kind="atomic")
    events = record.picked(array="y", kind="atomic")
    requests = {(e["block"], e["thread"] // 32, e["occurrence"]) for e in events}
    assert len(requests) == access.requests == 2 * 2 * 2
    assert {number for *_, number in requests} == {0, 1}
    assert serialized(record, array="y") == 2 * 2 * (4 + 8)
