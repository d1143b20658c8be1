"""Passes keep values, on random graphs and their gradients, and save what they say they save."""

import numpy as np
import pytest
from hypothesis import given, settings

from helpers import autodiff
from helpers.autodiff import passes, rewriting
from tests.autodiff.random_graphs import build, programs

ELSEWHERE = {"fuse"}  # it compiles: tests of its own
NAMES = sorted(set(passes.__all__) - ELSEWHERE - {"fast_math"})
ALL = [getattr(passes, name) for name in NAMES]
ALL += [passes.fast_math.collect_terms, passes.fast_math.order_products]
NAMES += ["collect_terms", "order_products"]


def operators(*outputs):
    return [str(node.operator) for node in autodiff.topological(outputs)]


@pytest.mark.parametrize("change", [*ALL, ALL], ids=[*NAMES, "all"])
@settings(max_examples=60, deadline=None)
@given(program=programs())
def test_values_and_types_stay(change, program):
    """On a random graph with its gradients; sizes that are 1 stay, the others are symbols."""
    arrays = [np.random.default_rng(i).uniform(-1, 1, s) for i, s in enumerate(program.shapes)]
    xs = [autodiff.variable(f"x{i}", a.shape) for i, a in enumerate(arrays)]
    y = build(program, xs, autodiff)
    outputs = [y, *autodiff.gradients(y, xs)]
    before = len(operators(*outputs))
    new = outputs
    for each in change if isinstance(change, list) else [change]:
        new = each(new, xs)
    assert [v.type for v in new] == [v.type for v in outputs]
    assert len(operators(*outputs)) == before, "the old graph stays as it is"
    expected, got = (autodiff.function(xs, vs)(*arrays) for vs in (outputs, new))
    for a, b in zip(expected, got, strict=True):
        np.testing.assert_allclose(b, a, 1e-11, 1e-12)


x = autodiff.variable("x", shape=("n", 4))
a, b = autodiff.variable("a"), autodiff.variable("b")


def test_subexpressions_are_shared_whatever_the_order_of_operands():
    y = autodiff.exp(x * a) + autodiff.exp(autodiff.broadcast(a, x.shape) * x)
    assert operators(y).count("exp") == 2
    (new,) = passes.share_subexpressions([y])
    assert operators(new).count("exp") == 1
    (other,) = passes.share_subexpressions([x / a - a / x])
    assert operators(other).count("divide") == 2, "division is not symmetric"


def test_the_sources_simplification():
    (y,) = passes.fast_math.collect_terms([x + 1 - 2 + x])
    assert operators(y) == ["full(2.0)", "multiply", "full(-1.0)", "add"]
    (zero,) = passes.fast_math.collect_terms([x - x])
    assert operators(zero) == ["full(0.0)"]


def additions_of_tensors(y):
    order = autodiff.topological([y])
    return sum(str(n.operator) == "add" and n.output.shape == x.shape for n in order)


def test_the_sources_reordering_adds_scalars_before_tensors():
    z = autodiff.variable("z", shape=x.shape)
    y = x + a + z + b
    large = additions_of_tensors(y)
    (new,) = passes.fast_math.collect_terms([y])
    now = additions_of_tensors(new)
    assert (large, now) == (3, 2)


def test_what_others_read_is_not_taken_apart():
    s = x + 1
    new = passes.fast_math.collect_terms([s - 2, s])
    assert operators(*new).count("add") == 2


@pytest.mark.parametrize("change", [*ALL, passes.fuse], ids=[*NAMES, "fuse"])
def test_no_pass_looks_behind_an_input(change):
    """What is fed has the value that is fed, whatever made it in the graph."""
    middle = [-x, 2 * x, autodiff.full(0.0, x.shape), autodiff.broadcast(a, x.shape), x @ x.T @ x]
    y = [-v + (v + x) * 1 for v in middle] + [autodiff.negative(v) for v in middle]
    values = [np.full((2, 4), float(i)) for i in range(6)]
    new = change(y, [x, *middle])
    expected, got = (autodiff.function([x, *middle], vs)(*values) for vs in (y, new))
    np.testing.assert_allclose(got, expected)


def test_products_in_the_order_of_the_textbook():
    """Cormen et al., section 15.2: 15 125 multiplications, ((A₁(A₂A₃))((A₄A₅)A₆))."""
    dims = [30, 35, 15, 5, 10, 20, 25]
    assert passes.fast_math.best_splits(dims)[0, 5] == (15_125, 2)


def test_products_turn_to_the_vector():
    w = autodiff.variable("w", shape=(4, 4))
    v = autodiff.variable("v", shape=(4, 1))
    many = autodiff.variable("many", shape=(100, 4))
    chains = passes.fast_math.order_products([x @ w @ v, many @ w @ v])
    firsts = [autodiff.topological([y])[0].output.shape for y in chains]
    assert firsts == [x.shape, (4, 1)], "n is not known"


def test_a_rule_that_changes_a_type_is_refused():
    with pytest.raises(TypeError, match=r"expects float64 \(n, 4\); got"):
        rewriting.rebuild([-x], lambda node, operands: autodiff.sum(operands[0]))
