"""The products of the course are right, and ask for the bytes that the text predicts."""

import numpy as np
import pytest

from helpers.cuda import Module

SIZES = [(64, 64, 64), (50, 70, 90), (16, 40, 130), (1, 1, 1)]


@pytest.fixture(scope="module")
def module():
    with Module("product.cu", device="cpu", verify=False, check=True) as made:
        yield made


def product(module, name, down, across, threads, size):
    """Run one on random numbers, compare it with NumPy, return its record."""
    m, k, n = size
    rng = np.random.default_rng(m + n)
    a, b = rng.standard_normal((m, k)), rng.standard_normal((k, n))
    a, b, c = a.astype(np.float32), b.astype(np.float32), np.full((m, n), np.nan, np.float32)
    grid = -(-n // across), -(-m // down)
    record = module[name][grid, threads].record(a, b, c, m, k, n, blocks=[])
    np.testing.assert_allclose(c, a @ b, rtol=1e-4, atol=1e-4)
    return record


def asked(size, down, across):
    m, k, n = size
    return 4 * (m * k * -(-n // across) + k * n * -(-m // down) + m * n)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("outputs", [1, 2, 4])
def test_a_tile_of_a_is_loaded_once_for_several_of_b(module, outputs, size):
    record = product(module, f"coarse_product<{outputs}>", 16, 16 * outputs, (16, 16), size)
    assert record.requested_bytes(space="global") == asked(size, 16, 16 * outputs)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("side", [16, 32])
def test_a_square_tile(module, side, size):
    record = product(module, f"square_product<{side}>", side, side, (side, side), size)
    assert record.requested_bytes(space="global") == asked(size, side, side)


def test_a_number_of_a_is_read_from_shared_memory_once_for_all_outputs_of_a_thread(module):
    size = (64, 64, 64)  # 64³ multiply-adds
    for outputs in (1, 2, 4):
        record = product(module, f"coarse_product<{outputs}>", 16, 16 * outputs, (16, 16), size)
        assert record.count(array="left", kind="read") == 64**3 // outputs
        assert record.count(array="right", kind="read") == 64**3


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("side", [1, 2, 4])
def test_a_square_of_outputs_for_each_thread(module, side, size):
    name, high = f"register_product<{side}>", 16 * side
    record = product(module, name, high, high, (16, 16), size)
    assert record.requested_bytes(space="global") == asked(size, high, high)
    reads = record.count(array="left", kind="read") + record.count(array="right", kind="read")
    steps = -(-size[0] // high) * -(-size[2] // high) * -(-size[1] // 16) * 16  # of all blocks
    assert reads == steps * 256 * 2 * side
