"""Attention by three kernels and by one equals PyTorch's, and asks for the bytes of the text."""

import numpy as np
import pytest
import torch

from helpers.cuda import Module
from helpers.sharded.running_softmax import merge

D = 32


@pytest.fixture(scope="module")
def module():
    with Module("attention.cu", device="cpu", verify=False, check=True) as made:
        yield made


def inputs(n, size=4.0):
    q, k, v = np.random.default_rng(n).standard_normal((3, n, D)).astype(np.float32)
    whole = torch.nn.functional.scaled_dot_product_attention
    return q * size, k, v, whole(*map(torch.from_numpy, (q * size, k, v)))


@pytest.mark.parametrize("n", [64, 40, 3])
def test_three_kernels_and_one_equal_pytorch(module, n):
    q, k, v, want = inputs(n)
    tiles, each = -(-n // 16), 4 * n * D
    scores, weights = np.zeros((2, n, n), np.float32)
    three, one, logs = np.zeros_like(q), np.zeros_like(q), np.zeros(n, np.float32)
    made = [
        module["scores"][(tiles, tiles), (16, 16)].record(q, k, scores, n, blocks=[]),
        module["softmax_thrice"][n, 32].record(scores, weights, n, blocks=[]),
        module["weighted"][tiles, (16, 16)].record(weights, v, three, n, blocks=[]),
        module["attention"][tiles, (16, 16)].record(q, k, v, one, logs, n, n, blocks=[]),
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
def test_outputs_over_different_keys_merge_as_on_a_ring(module, cut):
    n = 50
    q, k, v, want = inputs(n)
    pieces = []
    for some in (slice(0, cut), slice(cut, n)):
        out, logs = np.zeros_like(q), np.zeros(n, np.float32)
        keys, values = k[some].copy(), v[some].copy()
        module["attention"][-(-n // 16), (16, 16)](q, keys, values, out, logs, n, len(keys))
        pieces += [torch.from_numpy(out), torch.from_numpy(logs)]
    np.testing.assert_allclose(merge(*pieces)[0], want, rtol=1e-3, atol=1e-5)
