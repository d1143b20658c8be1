"""Fused loops: the values of the operators one by one, in one pass over memory."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings

from helpers import autodiff
from helpers.autodiff.memory import Allocator, plan
from helpers.autodiff.passes import fuse
from tests.autodiff.random_graphs import build, programs

x = autodiff.variable("x", shape=("n",))
z = autodiff.variable("z", shape=("n",))
AWKWARD = np.array([0.5, 1.0, -0.0, -2.0, 1e300, np.inf, -np.inf, np.nan])
OTHER = np.array([1.0, 1.0, 0.0, np.nan, -3.0, 2.0, np.inf, 0.0])


def operators(*outputs):
    return [str(node.operator) for node in autodiff.topological(outputs)]


@settings(max_examples=5, deadline=None, database=None)
@given(program=programs())
def test_random_graphs_and_their_gradients(program):
    arrays = [np.random.default_rng(i).uniform(-1, 1, s) for i, s in enumerate(program.shapes)]
    xs = [autodiff.variable(f"x{i}", a.shape) for i, a in enumerate(arrays)]
    y = build(program, xs, autodiff)
    outputs = [y, *autodiff.gradients(y, xs)]
    expected = autodiff.function(xs, outputs)(*arrays)
    got = plan(xs, fuse(outputs, xs))(*arrays)
    for a, b in zip(expected, got, strict=True):
        np.testing.assert_allclose(b, a, 1e-11, 1e-12)


UNARY = ("exp", "log", "sqrt", "sin", "cos", "tanh", "sigmoid", "abs", "sign", "relu", "negative")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "less", "greater", "equal")


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", [*UNARY, *BINARY])
def test_every_operator_in_c_is_the_operator_in_numpy(name, dtype):
    """Infinities, signed zeros and what is not a number included."""
    a, b = (autodiff.variable(v, shape=("n",), dtype=dtype) for v in "ab")
    operator = getattr(autodiff, name)
    y = operator(a * 1) if name in UNARY else operator(a * 1, b)
    y = autodiff.where(y, a, 2) if y.dtype == bool else y
    (new,) = fuse([y], [a, b])
    assert [word[:5] for word in operators(new)] == ["fused"]
    with np.errstate(all="ignore"):
        arrays = [v.astype(dtype) for v in (AWKWARD, OTHER)]
        expected, got = (autodiff.function([a, b], [v])(*arrays)[0] for v in (y, new))
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, 1e-13 if dtype == "float64" else 1e-6)


def test_a_chain_is_one_operator_and_needs_no_array_of_constants():
    y = autodiff.sigmoid(autodiff.tanh(x * 2 + z) - 0.5)
    (new,) = fuse([y], [x, z])
    assert operators(new) == ["fused(multiply, add, tanh, subtract, sigmoid)"]
    assert plan([x, z], [new], {"n": 1000}).peak == 8000


def test_what_others_read_is_computed_once():
    shared = autodiff.exp(x * 2)
    names = operators(*fuse([shared + z, shared * z], [x, z]))
    assert sum("exp" in name for name in names) == 1


def test_in_place_and_out_of_order():
    """A fused loop over its own operand, and over one seen through a transpose."""
    m = autodiff.variable("m", shape=("n", "n"))
    y = autodiff.tanh(autodiff.exp(m) @ m) * 2 + m.T
    made = plan([m], fuse([y], [m]), {"n": 7})
    assert made.steps[-1].how == "in place"
    value, allocator = np.random.default_rng(0).normal(size=(7, 7)), Allocator()
    (got,) = made(value, allocator=allocator)
    assert allocator.peak == made.peak
    np.testing.assert_allclose(got, np.tanh(np.exp(value) @ value) * 2 + value.T, 1e-12)


def test_a_long_chain_is_cut():
    y = x
    for _ in range(300):
        y = y * 1.001
    (new,) = fuse([y], [x])
    assert 300 // 65 <= len(operators(new)) <= 300 // 60
    (got,) = autodiff.function([x], [new])(np.ones(3))
    np.testing.assert_allclose(got, 1.001**300)


@pytest.mark.parametrize(
    "see",
    [
        lambda a: np.broadcast_to(a[:, :1, :1], a.shape),
        lambda a: np.broadcast_to(a[:1, :, :1], a.shape),
        lambda a: np.broadcast_to(a[0, 0], a.shape),
        lambda a: np.broadcast_to(a[0, 0, 0], a.shape),
        lambda a: a.transpose(2, 1, 0),
        lambda a: a[:, ::-1],
        lambda a: np.concatenate([a, a], axis=2)[:, :, ::2],
    ],
    ids=["rows", "middle", "columns", "number", "transposed", "backwards", "every second"],
)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n", [4, 1, 0])
def test_operands_that_do_not_lie_in_one_piece(see, dtype, n):
    whole = np.random.default_rng(0).normal(size=(4, 4, 4)).astype(dtype)
    a, b = see(whole)[:n], np.exp(whole)[:n]
    xs = [autodiff.variable(name, ("n", 4, 4), dtype) for name in "ab"]
    (y,) = fuse([autodiff.tanh(xs[0] * 2 - xs[1]) * xs[0]], xs)
    out = np.empty(b.shape, dtype)
    y.maker.operator.run(out, *(a if v is xs[0] else b for v in y.maker.inputs))
    np.testing.assert_allclose(out, np.tanh(a * 2 - b) * a, 3e-6 if dtype == "float32" else 1e-12)


def test_a_broadcast_operand_is_not_laid_out_in_memory():
    xs = [autodiff.variable("m", (1000, 1000)), autodiff.variable("row", (1000,))]
    y = fuse([autodiff.relu(xs[0] + xs[1]) * 2], xs)
    arrays = np.ones((1000, 1000)), np.ones(1000)
    tracemalloc.start()
    plan(xs, y)(*arrays)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1.1 * 8_000_000, "the result, and little else"
