"""The course's kernels are right, and ask for the bytes and atomics that the text predicts."""

import numpy as np
import pytest
import torch

from helpers.cuda import Module
from helpers.cuda.record import serialized
from helpers.sharded.running_softmax import merge

SIZES = [(64, 64, 64), (50, 70, 90), (16, 40, 130), (1, 1, 1)]


@pytest.fixture(scope="module")
def products():
    with Module("product.cu", device="cpu", verify=False, check=True) as made:
        yield made


def product(products, name, down, across, threads, size):
    """Run one on random numbers, compare it with NumPy, return its record."""
    m, k, n = size
    rng = np.random.default_rng(m + n)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    a, b, c = a.astype(np.float32), b.astype(np.float32), np.full((m, n), np.nan, np.float32)
    grid = -(-n // across), -(-m // down)
    record = products[name][grid, threads].record(a, b, c, m, k, n, blocks=[])
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
    asked = 4 * (m * k * -(-n // across) + k * n * -(-m // down) + m * n)
    assert record.requested_bytes(space="global") == asked
    return record


@pytest.mark.parametrize("size", SIZES)
def test_each_product_loads_its_tiles_once(products, size):
    for outputs in (1, 2, 4):
        product(products, f"coarse_product<{outputs}>", 16, 16 * outputs, (16, 16), size)
    for side in (16, 32):
        product(products, f"square_product<{side}>", side, side, (side, side), size)


def test_a_number_of_a_is_read_from_shared_memory_once_for_all_outputs_of_a_thread(products):
    size = (64, 64, 64)  # 64³ multiply-adds
    for outputs in (1, 2, 4):
        record = product(products, f"coarse_product<{outputs}>", 16, 16 * outputs, (16, 16), size)
        assert record.count(array="left", kind="read") == 64**3 // outputs
        assert record.count(array="right", kind="read") == 64**3


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("side", [1, 2, 4])
def test_a_square_of_outputs_for_each_thread(products, side, size):
    name, high = f"register_product<{side}>", 16 * side
    record = product(products, name, high, high, (16, 16), size)
    reads = record.count(array="left", kind="read") + record.count(array="right", kind="read")
    steps = -(-size[0] // high) * -(-size[2] // high) * -(-size[1] // 16) * 16  # of all blocks
    assert reads == steps * 256 * 2 * side


@pytest.fixture(scope="module")
def histograms():
    with Module("histogram.cu", device="cpu", verify=False, check=True) as made:
        yield made


@pytest.mark.parametrize(("n", "grid", "block"), [(1000, 3, 64), (4096, 2, 256), (5, 1, 32)])
def test_both_count_every_byte_and_ask_for_the_atomics_they_promise(histograms, n, grid, block):
    x = np.random.default_rng(n).integers(0, 256, n).astype(np.uint8)
    want = np.bincount(x, minlength=256)
    for name, atomics in (("direct_histogram", n), ("own_histogram", 256 * grid)):
        bins = np.zeros(256, np.uint32)
        record = histograms[name][grid, block].record(x, bins, n)
        assert np.array_equal(bins, want)
        assert record.count(array="bins", kind="atomic") == atomics
        assert record.count(array="own", kind="atomic") == (0 if name[0] == "d" else n)


@pytest.mark.parametrize(
    ("values", "want"),
    [
        (np.arange(64), 2),  # two warps, no lane beside another
        (np.zeros(64), 64),
        (np.arange(64) // 4, 2 * 4),
        ([0] * 3 + list(range(1, 30)) + [99] * 32, 3 + 32),
        (np.arange(256) % 64, 2 + 2 + 2 + 2),  # four times round, each a request of its own
    ],
)
def test_lanes_that_want_one_place_take_serialized(histograms, values, want):
    x = np.array(values, np.uint8)
    record = histograms["direct_histogram"][1, 64].record(x, np.zeros(256, np.uint32), len(x))
    assert serialized(record, array="bins") == want
    assert serialized(record, array="x") == 0


@pytest.mark.parametrize("kept", [{"blocks": []}, {"blocks": [1]}, {"limit": 100}])
def test_a_record_that_lacks_accesses_is_refused(histograms, kept):
    x = np.zeros(128, np.uint8)
    launch = histograms["direct_histogram"][2, 64]
    record = launch.record(x, np.zeros(256, np.uint32), len(x), **kept)
    with pytest.raises(ValueError, match="lacks single accesses"):
        serialized(record, array="bins")


D = 32


@pytest.fixture(scope="module")
def attention():
    with Module("attention.cu", device="cpu", verify=False, check=True) as made:
        yield made


def inputs(n, size=4.0):
    q, k, v = np.random.default_rng(n).standard_normal((3, n, D)).astype(np.float32)
    whole = torch.nn.functional.scaled_dot_product_attention
    return q * size, k, v, whole(*map(torch.from_numpy, (q * size, k, v)))


@pytest.mark.parametrize("n", [64, 40, 3])
def test_three_kernels_and_one_equal_pytorch(attention, n):
    q, k, v, want = inputs(n)
    tiles, each = -(-n // 16), 4 * n * D
    scores, weights = np.zeros((2, n, n), np.float32)
    three, one, logs = np.zeros_like(q), np.zeros_like(q), np.zeros(n, np.float32)
    made = [
        attention["scores"][(tiles, tiles), (16, 16)].record(q, k, scores, n, blocks=[]),
        attention["softmax_thrice"][n, 32].record(scores, weights, n, blocks=[]),
        attention["weighted"][tiles, (16, 16)].record(weights, v, three, n, blocks=[]),
        attention["attention"][tiles, (16, 16)].record(q, k, v, one, logs, n, n, blocks=[]),
    ]
    np.testing.assert_allclose(three, want, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(one, want, rtol=1e-3, atol=1e-5)
    asked = [record.requested_bytes(space="global") for record in made]
    square = 4 * n * n
    assert asked == [
        2 * each * tiles + square,
        4 * square,
        square + each * tiles + each,
        each + 2 * each * tiles + each + 4 * n,
    ]
    once = [record.compulsory_bytes() for record in made]
    assert sum(once[:3]) == 4 * square + 4 * each
    assert once[3] == 4 * each + 4 * n


@pytest.mark.parametrize("cut", [1, 17, 48])
def test_outputs_over_different_keys_merge_as_on_a_ring(attention, cut):
    n = 50
    q, k, v, want = inputs(n)
    pieces = []
    for some in (slice(0, cut), slice(cut, n)):
        out, logs = np.zeros_like(q), np.zeros(n, np.float32)
        keys, values = k[some].copy(), v[some].copy()
        attention["attention"][-(-n // 16), (16, 16)](q, keys, values, out, logs, n, len(keys))
        pieces += [torch.from_numpy(out), torch.from_numpy(logs)]
    np.testing.assert_allclose(merge(*pieces)[0], want, rtol=1e-3, atol=1e-5)


def test_each_tree_of_sums_adds_up_its_blocks():
    x = np.random.default_rng(0).random(3 * 256, np.float32)
    with Module("sums.cu", device="cpu") as sums:
        for name in sums:
            total = np.full(3, np.nan, np.float32)
            sums[name][3, 256](x, total, check=True)
            np.testing.assert_allclose(total, x.reshape(3, 256).sum(1), rtol=1e-5)
