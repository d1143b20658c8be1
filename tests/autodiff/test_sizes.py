"""Symbolic sizes are polynomials in one normal form: their arithmetic is that of numbers."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from helpers.autodiff.sizes import resolve, shape_of, symbol, symbols

LEAVES = st.sampled_from([symbol("n"), symbol("m"), 0, 1, 2, 3, 6])
OPERATIONS = st.sampled_from("+-*/")
FORMULAS = st.recursive(LEAVES, lambda f: st.tuples(OPERATIONS, f, f), max_leaves=6)
NUMBERS = {"n": 12, "m": 5}


def symbolic(f):
    if not isinstance(f, tuple):
        return f
    a, b = symbolic(f[1]), symbolic(f[2])
    if f[0] == "/":
        assume(resolve(b, NUMBERS) > 0)
    return {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a // b}[f[0]]()


def numeric(f):
    if not isinstance(f, tuple):
        return resolve(f, NUMBERS)
    a, b = numeric(f[1]), numeric(f[2])
    return {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a // b}[f[0]]()


@given(FORMULAS)
def test_resolving_at_the_end_equals_resolving_first(formula):
    assert resolve(symbolic(formula), NUMBERS) == numeric(formula)


def test_one_normal_form():
    n, m = symbol("n"), symbol("m")
    assert n + n == 2 * n
    assert (n + m) * (n - m) == n * n - m * m
    assert 6 * n * m // (3 * n) == 2 * m
    assert n - n == 0
    assert n // 2 * 2 != n
    assert symbols((n // (m + 1), 3)) == {"n", "m"}


def test_refusals():
    with pytest.raises(ValueError, match="'2x'"):
        shape_of(["2x"])
    with pytest.raises(ValueError, match="0 or more"):
        shape_of([-1])
    with pytest.raises(ValueError, match="positive"):
        symbol("n") // 0
