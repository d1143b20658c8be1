"""A graph as text: what is fed, what is kept, every operator once, what is returned."""

import numpy as np
import pytest

from helpers import autodiff as ad
from helpers.autodiff import passes


def test_a_line_for_each_operator_with_types_numbers_and_order():
    x, w = ad.variable("x", shape=("n", 3)), ad.state("w", np.ones(3))
    y = ad.tanh(x @ ad.reshape(w, (3, 1)))
    outputs = passes.order_updates([y, ad.update(w, 2 * w)])
    assert ad.listing([x], outputs).splitlines() == [
        "x: float64 (n, 3)",
        "w: float64 (3,)  # state",
        "a: float64 (3, 1) = reshape w",
        "b: float64 (n, 1) = matmul x a",
        "c: float64 (n, 1) = tanh b",
        "d: float64 (3,) = full(2.0)",
        "e: float64 (3,) = multiply d w",
        "f: float64 (3,) = update w e after b e",
        "return c, f",
    ]


def test_names_are_never_given_twice():
    a, other = ad.variable("a", shape=(2,)), ad.variable("a", shape=(2,))
    y = a * other
    for _ in range(30):
        y = ad.exp(y)
    names = [line.split(":")[0] for line in ad.listing([a, other], [y]).splitlines()[:-1]]
    assert len(set(names)) == len(names) == 33
    assert names[:3] == ["a", "b", "c"]
    assert "ab" in names


def test_what_is_not_fed_is_refused():
    x = ad.variable("x")
    with pytest.raises(ValueError, match="among its inputs"):
        ad.listing([], [ad.exp(x)])
