"""Loops: values, gradients of first and second order, against PyTorch's unrolled ones."""

import numpy as np
import pytest
import torch

from helpers import autodiff as ad
from helpers.autodiff import passes
from helpers.autodiff.loop import Scan
from tests.autodiff.agreement import assert_agrees

random = np.random.default_rng(3)


def arrays(*shapes):
    return [random.normal(size=shape) * 0.5 for shape in shapes]


def rnn(xs, h, W, U):
    """Every hidden state, and to each the last one times two."""

    def step(h, x):
        new = ad.tanh(ad.matmul(x, W) + ad.matmul(h, U))
        return [new], [new]

    (last,), (stack,) = ad.scan(step, [h], [xs])
    return stack + 2 * last


def torch_rnn(xs, h, W, U):
    found = []
    for x in xs:
        h = torch.tanh(x @ W + h @ U)
        found.append(h)
    return torch.stack(found) + 2 * h


@pytest.mark.parametrize("shapes", [None, [("t", "b", 3), ("b", "h"), (3, "h"), ("h", "h")]])
@pytest.mark.parametrize("steps", [1, 5])
def test_rnn(steps, shapes):
    assert_agrees(rnn, torch_rnn, arrays((steps, 2, 3), (2, 4), (3, 4), (4, 4)), shapes)


def test_two_states_of_different_shape_and_an_output_that_is_neither():
    def ours(a, b, xs):
        def step(a, b, x):
            return [a * x, b + ad.sum(a) * x], [ad.sum(b) * x]

        (a, b), (outs,) = ad.scan(step, [a, b], [xs])
        return ad.sum(a) * ad.sum(b) + outs

    def theirs(a, b, xs):
        outs = []
        for x in xs:
            outs.append(b.sum() * x)
            a, b = a * x, b + a.sum() * x
        return a.sum() * b.sum() + torch.stack(outs)

    assert_agrees(ours, theirs, arrays((3,), (2, 2), (4,)))


def test_sizes_inside_the_body_that_no_operand_shows():
    xs, s = ad.variable("xs", ("t", "n")), ad.variable("s")
    (total,), _ = ad.scan(lambda s, x: ([s + ad.sum(x) / xs.shape[0]], []), [s], [xs])
    f = ad.function([xs, s], [total])
    assert f(np.ones((4, 3)), np.array(1.0)) == [4]
    assert f(np.ones((2, 5)), np.array(0.0)) == [5]


def test_what_does_not_change_is_computed_once():
    W, x, xs = (ad.variable(n, s) for n, s in [("W", (2, 2)), ("x", (2,)), ("xs", (3, 2))])
    square = W @ W
    (h,), _ = ad.scan(lambda h, x: ([square @ h + x], []), [x], [xs])
    (node,) = [n for n in ad.topological([h]) if isinstance(n.operator, Scan)]
    assert square in node.inputs
    inside = ad.topological(node.operator.body.results)
    assert [str(n.operator) for n in inside].count("matmul") == 1


def test_no_element_at_all():
    xs, s = ad.variable("xs", ("t",)), ad.variable("s")
    (last,), (sums,) = ad.scan(lambda s, x: ([s + x], [s + x]), [s], [xs])
    grads = ad.gradients(last, [s, xs])
    last, sums, to_s, to_xs = ad.function([xs, s], [last, sums, *grads])(np.zeros(0), np.array(7.0))
    assert (last, sums.shape, to_s, to_xs.shape) == (7, (0,), 1, (0,))


def test_whole_numbers_as_elements():
    table, rows = ad.variable("table", (4, 2)), ad.variable("rows", ("t",), "int64")

    def step(s, row):
        chosen = ad.cast(ad.equal(ad.constant(np.arange(4)), row), "float64")
        return [ad.tanh(s + chosen @ table)], []

    (s,), _ = ad.scan(step, [ad.full(0.0, (2,))], [rows])
    T = random.normal(size=(4, 2))
    index = np.array([3, 0, 3])
    (g,) = ad.gradients(ad.sum(s), [table])
    value, gradient = ad.function([table, rows], [s, g])(T, index)
    t, h = torch.tensor(T, requires_grad=True), torch.zeros(2, dtype=torch.float64)
    for row in index:
        h = torch.tanh(h + t[row])
    h.sum().backward()
    np.testing.assert_allclose(value, h.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(gradient, t.grad.numpy(), rtol=1e-12)


def test_eager_operands_run_the_loop_at_once():
    w, xs = ad.eager(0.5), ad.eager([1.0, 2.0])
    (s,), _ = ad.scan(lambda s, x: ([s * w + x], []), [ad.full(1.0)], [xs])
    (g,) = ad.gradients(s, [w])
    assert (s.value, g.value) == (0.25 + 0.5 + 2, 2 * 0.5 + 1)


def test_states_of_the_graph_are_read_as_they_are_when_the_loop_runs():
    w, x = ad.state("w", 2.0), ad.variable("x")
    (y,), _ = ad.scan(lambda y, one: ([y * w * one], []), [x], [ad.full(1.0, (3,))])
    step = ad.function([x], [ad.add_update(w, 1), y], [passes.order_updates])
    assert [step(np.array(1.0))[1] for _ in range(2)] == [8, 27]


def test_wrong_loops_are_refused():
    x, xs, ys = (ad.variable(n, s) for n, s in [("x", ()), ("xs", (3,)), ("ys", (4,))])
    with pytest.raises(TypeError, match="new states of types"):
        ad.scan(lambda s, x: ([ad.reshape(s, (1,))], []), [x], [xs])
    with pytest.raises(ValueError, match="sequences of one length"):
        ad.scan(lambda s, a, b: ([s], []), [x], [xs, ys])
    with pytest.raises(ValueError, match="sequences of one length"):
        ad.scan(lambda s: ([s], []), [x], [])
    with pytest.raises(TypeError, match="one floating dtype"):
        ad.scan(lambda s, y: ([s + ad.cast(y, "float64")], []), [x], [ad.cast(xs, "float32")])
    with pytest.raises(TypeError, match="a list of states; got <x: "):
        ad.scan(lambda s, x: ([s], []), x, [xs])
    with pytest.raises(TypeError, match="a list of sequences; got <xs: "):
        ad.scan(lambda s, x: ([s], []), [x], xs)
    with pytest.raises(TypeError, match="of a step a list of states and one of outputs"):
        ad.scan(lambda s, x: (s, s), [x], [xs])
