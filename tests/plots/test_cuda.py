"""Pictures of recorded kernels say what the record says."""

import numpy as np
import pytest

from helpers.cuda import Module
from helpers.cuda.ladder import Convolution
from helpers.plots import accesses
from helpers.plots import cuda as plots
from tests.plots import values


@pytest.fixture(scope="module")
def records():
    image = np.random.default_rng(0).random((8, 12), np.float32)
    three = Convolution(np.ones((3, 3)), tile=(4, 4), device="cpu", verify=False)
    yield {rung: three.record(image, rung) for rung in ("global", "tiled")}
    three.module.close()


def test_who_computes_what(records):
    data = values(accesses.thread_picture(records["global"], "image", "out").data)
    assert len(data["threads"]) == 96
    block, thread, reads, _, count = next(t for t in data["threads"] if t[3] == [12 + 5])
    assert (block, thread, count) == ([1, 0, 0], [1, 1, 0], 9)
    assert reads == sorted(12 * y + x for y in range(3) for x in (4, 5, 6))


def test_who_loads_what_in_which_pass(records):
    data = values(accesses.tile_animation(records["tiled"], "image", "tile", (6, 6), 1).data)
    assert [len(p) for p in data["passes"]] == [16, 16, 4]
    loads = {tile: pixel for p in data["passes"] for _, pixel, tile in p}
    assert sorted(loads) == list(range(36))
    # Block 1 has columns 4..7 of the first rows: its halo begins at row -1, column 3.
    for tile, pixel in loads.items():
        y, x = tile // 6 - 1, tile % 6 + 3
        assert pixel == (12 * y + x if y >= 0 else -1)
    assert all(len(cells) == 9 for _, cells in data["used"])


def test_what_cannot_be_drawn_is_said(records):
    with pytest.raises(ValueError, match="'nothing' is no array of this launch; it has"):
        accesses.thread_picture(records["global"], "nothing", "out")
    with pytest.raises(ValueError, match="no write to 'tile' by block 99"):
        accesses.tile_animation(records["tiled"], "image", "tile", (6, 6), 99)
    with Module("vector_add.cu", device="cpu", verify=False) as module:
        a = np.zeros((3, 2000), np.float32)
        record = module["vector_add"][8, 256].record(*a, 2000)
        with pytest.raises(ValueError, match="at most 1600 elements"):
            accesses.thread_picture(record, "a", "c")


def test_a_request_shows_its_sectors_and_its_banks():
    with Module("access.cu", device="cpu", verify=False) as module:
        memory, y = np.zeros(32 * 36, np.float32), np.zeros(32, np.float32)
        requests = {f"{s} apart": module["strided"][1, 32].record(memory, y, s) for s in (1, 4, 33)}
    data = values(accesses.lane_picture(requests, "x", "tile").data)["requests"]
    assert [len(one["sectors"]) for one in data] == [4, 16, 32]
    assert data[1]["words"] == [4 * lane for lane in range(32)]
    assert data[1]["label"].startswith("Lanes read words 0, 4, 8, … Global")
    assert "16 sectors = 512 bytes" in data[1]["label"]
    assert "4 wavefronts" in data[1]["label"]
    assert "1 wavefront." in data[2]["label"]
    with pytest.raises(ValueError, match="expected each lane to read one word"):
        accesses.lane_picture(requests, "y", "tile")


def test_a_block_of_a_product_reads_its_rows_and_its_columns():
    wide, square = plots.product_blocks({"16 × 64": (16, 64), "32 × 32": (32, 32)}, 64, 16)
    reads = [[patch.get_width() * patch.get_height() for patch in ax.patches[3:]]
             for ax in (wide, square)]  # fmt: skip
    assert reads[0] == [64 * 16, 16 * 16, 64 * 64, 64 * 16, 16 * 64]  # A, its tile, B, its tile, C
    assert reads[1] == [64 * 32, 16 * 32, 64 * 32, 16 * 32, 32 * 32]


def test_a_tile_of_scores_needs_as_many_queries_as_outputs():
    ax = plots.attention_tile(96, 32, 16)
    held = [(patch.get_x(), patch.get_y(), patch.get_width(), patch.get_height())
            for patch in ax.patches[1::2]]  # fmt: skip
    queries, keys, _, outputs, scores = held
    assert [tuple(box[2:]) for box in held] == [(32, 16), (16, 32), (32, 16), (32, 16), (16, 16)]
    assert queries[1] == outputs[1] == scores[1]  # one row of tiles
    assert keys[0] == scores[0]  # one column


def test_a_scan_is_played_as_it_ran():
    x, y, records = np.array([3, 1, 7, 0, 4, 1, 6, 3], np.float32), np.zeros(8, np.float32), {}
    want = {}
    with Module("scan.cu", {"N": 8}, device="cpu", verify=False) as module:
        for name, threads in (("scan_tree", 4), ("scan_steps", 8)):
            records[name] = module[name][1, threads].record(x, y)
            want[name] = [f"{value:g}" for value in y]
    runs = values(accesses.scan_picture(records, x).data)["runs"]
    assert {run["name"]: run["rows"][-1] for run in runs} == want
    tree, steps = runs
    assert tree["names"][3:6] == ["up 3", "last = 0", "down 1"]
    assert tree["moves"][1][1] == {"thread": 1, "from": [2, 3], "to": 3}
    assert tree["moves"][5] == [
        {"thread": 0, "from": [7], "to": 3},
        {"thread": 0, "from": [3, 7], "to": 7},
    ]
    assert steps["names"] == ["x", "step 1", "step 2", "step 3"]
    assert [len(moves) for moves in steps["moves"]] == [0, 7, 6, 4]


def test_a_warp_in_its_passes():
    text = """__global__ void f(int *x) {
    if (threadIdx.x % 32 >= 8)
        x[threadIdx.x] = 1;
    else
        x[threadIdx.x] += 2;
}"""
    with Module(text, device="cpu", verify=False) as module:
        record = module["f"][1, 64].warps(np.zeros(64, np.int32))
    axes = plots.warp_passes(record)
    drawn = {
        bars.get_label(): [
            (round(bar.get_x() + 0.45), bar.get_y() + 0.5, bar.get_height()) for bar in bars
        ]
        for bars in axes.containers
    }
    assert drawn == {
        "line 2: if (threadIdx.x % 32 >= 8)": [(1, 0, 32)],
        "line 5: x[threadIdx.x] += 2;": [(2, 0, 8)],
        "line 3: x[threadIdx.x] = 1;": [(3, 8, 24)],
    }
    assert [label[:6] for label in drawn] == ["line 2", "line 5", "line 3"]  # as executed
    assert axes.get_title() == "3 passes, 33% of the lanes idle"
    assert len({bars[0].get_hatch() for bars in axes.containers}) == 3
