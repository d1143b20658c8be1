"""The arithmetic of compression: no ranks."""

import numpy as np
import pytest

from helpers.data_parallel.compression import compressors, packing
from helpers.data_parallel.compression.quantise import bound, quantise, variance
from helpers.data_parallel.schemes.compressed import numbers, orthonormal, shape_of

LEVELS = (1, 3, 7, 15)


def unpacked(packed, n, levels):
    out = np.zeros(n, np.float32)
    packing.add(packed, levels, out)
    return out


def drawn(n, seed=0):
    return np.random.default_rng(seed).standard_normal(n).astype(np.float32)


@pytest.mark.parametrize("levels", LEVELS)
def test_rounding_is_unbiased_and_its_variance_is_as_computed_and_within_the_bound(levels):
    v, rng, times = drawn(64).astype(float), np.random.default_rng(1), 20_000
    norm = np.linalg.norm(v)
    mean, square = np.zeros(64), 0.0
    for _ in range(times):
        q = quantise(v, levels, rng.random(64)) * norm / levels
        mean += q / times
        square += ((q - v) ** 2).sum() / times
    assert np.abs(mean - v).max() < 5 * norm / levels / 2 / times**0.5
    assert square == pytest.approx(variance(v, levels), rel=0.02)
    assert square < bound(64, levels) * norm**2


def test_four_numbers_by_hand():
    v = np.array([0.0, 3.0, -4.0, 12.0])  # norm 13
    assert quantise(v, 1, np.array([0.99, 0.8, 0.6, 0.0])).tolist() == [0, 1, 0, 0]
    assert quantise(v, 13, np.array([0.5, 0.5, 0.5, 0.5])).tolist() == [0, 3, -4, 12]
    assert quantise(np.zeros(3), 7, np.ones(3) * 0.9).tolist() == [0, 0, 0]
    assert variance(v, 13) == pytest.approx(0, abs=1e-9)
    for wrong in ((v, 0, np.zeros(4)), (v, 1, np.zeros(3)), (v[None], 1, np.zeros((1, 4)))):
        with pytest.raises(ValueError, match="quantise expects"):
            quantise(*wrong)


@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("n", [0, 1, 9, 511, 512, 513, 5000])
def test_packed_values_are_whole_levels_beside_the_value(n, levels):
    v = drawn(n, seed=n)
    code = packing.pack(v, levels, packing.generator(1))
    assert len(code) == -(-n // 512) * (4 + 64 * {1: 2, 3: 3, 7: 4, 15: 5}[levels])
    found = unpacked(code, n, levels)
    for begin in range(0, n, 512):
        part, rounded = v[begin : begin + 512], found[begin : begin + 512]
        step = np.linalg.norm(part) / levels
        assert np.abs(rounded / step - np.round(rounded / step)).max() < 1e-4
        assert np.abs(rounded - part).max() < step * 1.0001
        assert (rounded * part >= 0).all()


@pytest.mark.parametrize("levels", LEVELS)
def test_packed_rounding_is_unbiased_in_every_place(levels):
    v, state, times = drawn(600), packing.generator(3), 3000
    total = np.zeros(600, np.float32)
    for _ in range(times):
        packing.add(packing.pack(v, levels, state), levels, total, 1 / times)
    norms = np.repeat([np.linalg.norm(v[:512]), np.linalg.norm(v[512:])], (512, 88))
    p = np.abs(v) / norms * levels % 1
    error = (total - v) / (norms / levels * np.sqrt(p * (1 - p) / times) + 1e-6)
    assert np.abs(error).max() < 5.5
    assert abs(error.mean()) < 0.2


def test_packing_refuses_what_it_cannot_hold():
    state, v = packing.generator(0), drawn(8)
    with pytest.raises(ValueError, match="levels=2: expected one of 1, 3, 7, 15"):
        packing.pack(v, 2, state)
    with pytest.raises(ValueError, match=r"v expects 8 contiguous float32; got float64"):
        packing.pack(v.astype(float), 7, state)
    with pytest.raises(ValueError, match="contiguous"):
        packing.pack(drawn(16)[::2], 7, state)
    with pytest.raises(ValueError, match="packed expects 260"):
        packing.add(np.zeros(3, np.uint8), 7, np.zeros(8, np.float32))
    for wrong in (np.nan, np.inf, -np.inf):
        bad = drawn(1030)
        bad[515] = wrong
        with pytest.raises(
            ValueError, match=f"finite values .* got up to {abs(wrong)} from value 512"
        ):
            packing.pack(bad, 7, state)


@pytest.mark.parametrize("size", [3e36, 3e30, 1.0, 1e-25, 1e-34, 1e-45, 0.0])
def test_packing_holds_small_and_large_numbers(size):
    """Their squares left float's range: 3e30 came back as NaN, 1e-25 as 0."""
    v = (size * drawn(1030)).astype(np.float32)
    back = unpacked(packing.pack(v, 15, packing.generator(0)), len(v), 15)
    for begin in (0, 512, 1024):
        part = slice(begin, begin + 512)
        norm = np.linalg.norm(v[part].astype(float))
        assert abs(back[part] - v[part]).max() <= norm / 15 * 1.001 + 1e-35


ALL = compressors.Half(), compressors.Quantised(7), compressors.TopK(0.1), compressors.Sign()


@pytest.mark.parametrize("compressor", ALL, ids=lambda c: c.name)
@pytest.mark.parametrize("n", [1, 7, 513])
def test_every_compressor_keeps_to_its_bytes_and_adds(compressor, n):
    v = drawn(n, seed=2)
    kept = v.copy()
    code = compressor.encode(v)
    assert code.dtype == np.uint8
    assert len(code) == compressor.nbytes(n)
    assert np.array_equal(v, kept)
    once, twice = np.zeros(n, np.float32), np.ones(n, np.float32)
    compressor.add(code, once)
    compressor.add(code, twice)
    assert np.allclose(twice, once + 1, atol=1e-6)
    assert float(once @ v) > 0


def test_top_k_keeps_the_largest_and_the_sign_keeps_the_mean_size():
    v = np.array([0.1, -5.0, 0.2, 3.0, -0.3], np.float32)
    out = np.zeros(5, np.float32)
    top = compressors.TopK(0.4)
    top.add(top.encode(v), out)
    assert out.tolist() == [0, -5, 0, 3, 0]
    out[:] = 0
    sign = compressors.Sign()
    sign.add(sign.encode(v), out)
    assert out == pytest.approx(np.array([1, -1, 1, 1, -1]) * np.abs(v).mean())
    for share in (0, 1.5):
        with pytest.raises(ValueError, match=f"got {share}"):
            compressors.TopK(share)


def test_the_power_method_finds_a_matrix_of_low_rank():
    rng = np.random.default_rng(0)
    m = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 50))
    q = rng.standard_normal((50, 2))
    for _ in range(2):
        p = orthonormal(m @ q)
        q = m.T @ p
    assert p.T @ p == pytest.approx(np.eye(2), abs=1e-9)
    assert p @ q.T == pytest.approx(m)
    assert np.isfinite(orthonormal(np.ones((4, 3)))).all()
    assert shape_of((6, 1, 5, 5), 2) == (6, 25)
    assert shape_of((10,), 1) is None
    assert shape_of((2, 2), 1) is None
    assert numbers([(6, 1, 5, 5), (6,)], 2) == 2 * 31 + 6
