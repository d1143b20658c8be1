"""Gradients as graphs: random graphs against PyTorch, dependence, custom rules, refusals."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from helpers import autodiff
from tests.autodiff.agreement import assert_agrees
from tests.autodiff.random_graphs import build, programs


@settings(max_examples=150, deadline=None)
@given(programs())
def test_random_graphs_to_second_order(program):
    """Any composition, with shared subexpressions and broadcasting."""
    arrays = [np.random.default_rng(i).uniform(-1, 1, s) for i, s in enumerate(program.shapes)]
    assert_agrees(
        lambda *xs: build(program, xs, autodiff),
        lambda *xs: build(program, xs, torch),
        arrays,
    )


def test_zeros_where_nothing_depends():
    x, z = autodiff.variable("x", shape=("n", 2)), autodiff.variable("z", shape=("n",))
    gx, gz, gs = autodiff.gradients(autodiff.sum(x), [x, z, autodiff.sign(x)])
    assert gz.type == z.type
    got = autodiff.function([x, z], [gx, gz, gs])(np.ones((3, 2)), np.ones(3))
    for array, expected in zip(got, [np.ones((3, 2)), np.zeros(3), np.zeros((3, 2))], strict=True):
        np.testing.assert_array_equal(array, expected)


def test_with_respect_to_the_middle_of_a_graph():
    x = autodiff.variable("x")
    middle = autodiff.exp(x)
    (g,) = autodiff.gradients(middle * middle, [middle])
    assert autodiff.function([x], [g])(np.array(0.0))[0] == 2


def test_a_long_chain_needs_no_recursion():
    x = autodiff.variable("x")
    y = x
    for _ in range(20_000):
        y = y * 1.0001
    (got,) = autodiff.function([x], autodiff.gradients(y, [x]))(np.array(1.0))
    np.testing.assert_allclose(got, 1.0001**20_000, 1e-9)


def test_stopped_reversed_and_clipped():
    x = autodiff.variable("x", shape=(3,))
    values = np.array([0.1, 2.0, -3.0])
    cases = {
        "stopped": (autodiff.stop_gradient, np.zeros(3)),
        "reversed": (autodiff.reverse_gradient, -2 * values),
        "clipped": (lambda x: autodiff.clip_gradient(x, 1.0), np.clip(2 * values, -1, 1)),
    }
    for name, (change, expected) in cases.items():
        same = change(x)
        y = autodiff.sum(same * same)
        value, g = autodiff.function([x], [same, *autodiff.gradients(y, [x])])(values)
        np.testing.assert_array_equal(value, values, err_msg=name)
        np.testing.assert_allclose(g, expected, 1e-12, err_msg=name)


def test_a_rule_of_ones_own_is_differentiated_too():
    """Straight-through: rounding, with the gradient of x³."""
    x = autodiff.variable("x")
    y = autodiff.with_gradient(autodiff.sign(x), [x], lambda g: [g * 3 * x * x])
    (first,) = autodiff.gradients(y, [x])
    (second,) = autodiff.gradients(first, [x])
    assert autodiff.function([x], [y, first, second])(np.array(2.0)) == [1, 12, 12]


def test_refusals():
    x = autodiff.variable("x", shape=(3,))
    with pytest.raises(ValueError, match="expects a scalar, or a seed; got"):
        autodiff.gradients(x, [x])
    with pytest.raises(ValueError, match="expects a seed of type"):
        autodiff.gradients(x, [x], seed=autodiff.sum(x))
    with pytest.raises(TypeError, match="floating"):
        autodiff.gradients(autodiff.sum(x), [autodiff.variable("i", dtype="int64")])
    y = autodiff.with_gradient(autodiff.sum(x), [x], lambda g: [g])
    with pytest.raises(TypeError, match=r"expects type float64 \(3,\)"):
        autodiff.gradients(y, [x])
