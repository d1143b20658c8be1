"""GELU and maxout."""

import numpy as np
import pytest
import torch

from helpers import autodiff as ad
from tests.autodiff.agreement import assert_agrees

random = np.random.default_rng(12)


def test_gelu():
    assert_agrees(
        ad.gelu,
        lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
        [random.normal(size=(3, 4)) * 2],
    )


def test_maxout_with_symbolic_sizes():
    """Groups of three channels, the largest of each (Goodfellow et al. 2013)."""
    x = ad.variable("x", ("n", "m"))
    y = ad.maxout(x, 3)
    assert str(y.shape) == "(n, m//3)"
    f = ad.function([x], [y, *ad.gradients(ad.sum(y), [x])])
    for n, m in [(2, 6), (1, 9)]:
        array = random.normal(size=(n, m))
        value, g = f(array)
        groups = array.reshape(n, m // 3, 3)
        assert np.array_equal(value, groups.max(2))
        assert np.array_equal(g.reshape(groups.shape), groups == groups.max(2, keepdims=True))
    with pytest.raises(ValueError, match="cannot reshape"):
        f(random.normal(size=(2, 5)))
