"""Types, sizes and text of a graph before anything runs; what cannot work is refused."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from helpers import autodiff
from helpers.autodiff import passes
from helpers.autodiff.sizes import resolve, shape_of, symbol, symbols

x = autodiff.variable("x", shape=("n", 3))
y = autodiff.variable("y", shape=(4,))


def test_types_are_known_before_anything_runs():
    w = autodiff.variable("w", shape=(3, "m"))
    z = (x @ w).T.reshape(-1)
    assert str(z.shape) == "(m*n,)"
    assert (x > 0).dtype == bool
    assert autodiff.sum(x, axis=0).shape == (3,)
    assert autodiff.variable("f", dtype="float32").dtype == np.float32


@pytest.mark.parametrize(
    ("apply", "words"),
    [
        (lambda: x + y, r"add expects shapes that broadcast; got \(n, 3\) and \(4,\)"),
        (lambda: x @ y, r"matmul expects .*; got \(n, 3\) and \(4,\)"),
        (
            lambda: autodiff.variable("a", ("n",)) + autodiff.variable("b", ("m",)),
            r"\(n,\) and \(m,\)",
        ),
        (lambda: x.reshape(7), r"reshape expects 3\*n elements; got \(n, 3\) to \(7,\)"),
        (lambda: autodiff.broadcast(x, (2, 3)), r"got \(n, 3\) to \(2, 3\)"),
        (lambda: autodiff.conv2d(x, y), r"conv2d expects .* got \(n, 3\) and \(4,\)"),
        (lambda: x.transpose((0, 0)), r"each axis of \(n, 3\) once; got \(0, 0\)"),
        (lambda: autodiff.sum(x, axis=2), r"a reduction of \(n, 3\) expects its axes; got 2"),
        (lambda: x.reshape(-1, -1), "at most one size of -1"),
        (lambda: x + autodiff.variable("f", dtype="float32"), r"one dtype .* float64 .* float32"),
        (
            lambda: autodiff.exp(autodiff.variable("i", dtype="int64")),
            "exp expects floating; got int64",
        ),
        (lambda: autodiff.where(x, x, x), "where expects bool, any, any; got float64"),
    ],
)
def test_impossible_shapes_and_dtypes_are_refused_with_both(apply, words):
    with pytest.raises((ValueError, TypeError), match=words):
        apply()


@pytest.mark.parametrize(
    "index", [4, -5, (0, 0), slice(None, None, -1), [0, 2], y > 0, np.array([0, 1]), True, 1.0]
)
def test_an_index_that_is_none_is_refused(index):
    with pytest.raises(IndexError, match=r"expects .*got"):
        y[index]


def test_arrays_and_numbers_enter_with_the_variables_dtype():
    f = autodiff.variable("f", shape=(2,), dtype="float32")
    (got,) = autodiff.function([f], [np.array([1, 2], np.float32) * f + 0.5])(
        np.ones(2, np.float32)
    )
    assert got.dtype == np.float32
    assert got.tolist() == [1.5, 2.5]


@pytest.mark.parametrize("shape", [(3,), ("n",)])
def test_one_variable_in_place_of_a_list_is_refused(shape):
    x = autodiff.variable("x", shape)
    y = autodiff.sum(x)
    for call in (
        lambda: autodiff.gradients(y, x),
        lambda: autodiff.function(x, [y]),
        lambda: autodiff.function([x], y),
        lambda: autodiff.plan(x, [y]),
        lambda: autodiff.topological(y),
        lambda: autodiff.listing([x], y),
        lambda: passes.fuse(y),
    ):
        with pytest.raises(TypeError, match=r"write \[x\] for one; got <"):
            call()


def test_a_number_that_an_integer_does_not_hold_is_refused():
    """Never cut off: i * 0.5 was 0."""
    i, b = autodiff.variable("i", (3,), "int64"), autodiff.variable("b", (3,), "bool")
    w = autodiff.state("w", np.array([1, 2]))
    for call in (
        lambda: i * 0.5,
        lambda: 1.5 + i,
        lambda: autodiff.maximum(i, 1.7),
        lambda: autodiff.where(b, i, 0.5),
        lambda: autodiff.where(b, 0.5, 1.5),
        lambda: autodiff.equal(b, 2),
        lambda: autodiff.full(0.5, (2,), "int64"),
        lambda: autodiff.full_like(i, np.nan),
        lambda: autodiff.update(w, 0.5),
    ):
        with pytest.raises(TypeError, match=r"does not hold .*: cast first"):
            call()
    run = autodiff.function([i], [i + 1, autodiff.minimum(i, 2), i.astype("float64") * 0.5])
    got = [array.tolist() for array in run(np.array([1, 2, 3]))]
    assert got == [[2, 3, 4], [1, 2, 2], [0.5, 1, 1.5]]


def test_a_line_for_each_operator_with_types_numbers_and_order():
    x, w = autodiff.variable("x", shape=("n", 3)), autodiff.state("w", np.ones(3))
    y = autodiff.tanh(x @ autodiff.reshape(w, (3, 1)))
    outputs = passes.order_updates([y, autodiff.update(w, 2 * w)])
    assert autodiff.listing([x], outputs).splitlines() == [
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
    a, other = autodiff.variable("a", shape=(2,)), autodiff.variable("a", shape=(2,))
    y = a * other
    for _ in range(30):
        y = autodiff.exp(y)
    names = [line.split(":")[0] for line in autodiff.listing([a, other], [y]).splitlines()[:-1]]
    assert len(set(names)) == len(names) == 33
    assert names[:3] == ["a", "b", "c"]
    assert "ab" in names


def test_what_is_not_fed_is_refused():
    x = autodiff.variable("x")
    with pytest.raises(ValueError, match="among its inputs"):
        autodiff.listing([], [autodiff.exp(x)])


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


def test_sizes_that_are_none_are_refused():
    with pytest.raises(ValueError, match="'2x'"):
        shape_of(["2x"])
    with pytest.raises(ValueError, match="0 or more"):
        shape_of([-1])
    with pytest.raises(ValueError, match="positive"):
        symbol("n") // 0
