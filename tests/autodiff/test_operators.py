"""Every operator against PyTorch: value, first and second order, awkward shapes, symbols."""

import numpy as np
import pytest
import torch
from torch.nn import functional

from helpers import autodiff
from tests.autodiff.agreement import assert_agrees

RANDOM = np.random.default_rng(3)


def normal(*shape):
    return RANDOM.normal(size=shape)


def positive(*shape):
    return RANDOM.uniform(0.5, 2, size=shape)


def tied(*shape):
    """Few different numbers, so that a maximum is met more than once."""
    return RANDOM.integers(-1, 2, size=shape).astype(float)


UNARY = {
    "exp": (autodiff.exp, torch.exp, normal),
    "log": (autodiff.log, torch.log, positive),
    "sqrt": (autodiff.sqrt, torch.sqrt, positive),
    "sin": (autodiff.sin, torch.sin, normal),
    "cos": (autodiff.cos, torch.cos, normal),
    "tanh": (autodiff.tanh, torch.tanh, normal),
    "sigmoid": (autodiff.sigmoid, torch.sigmoid, normal),
    "relu": (autodiff.relu, torch.relu, tied),
    "abs": (autodiff.abs, torch.abs, tied),
    "sign": (autodiff.sign, torch.sign, tied),
    "negative": (autodiff.negative, torch.neg, normal),
    "gelu": (autodiff.gelu, lambda x: functional.gelu(x, approximate="tanh"), normal),
    "x**0": (lambda x: x**0, lambda x: x**0, normal),
    "x**1": (lambda x: x**1, lambda x: x**1, normal),
    "x**7": (lambda x: x**7, lambda x: x**7, normal),
    "x**-3": (lambda x: x**-3, lambda x: x**-3, positive),
    "x**0.5": (lambda x: x**0.5, lambda x: x**0.5, positive),
    "x**1.7": (lambda x: x**1.7, lambda x: x**1.7, positive),
}


@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 1, 4), (2, 0)])
@pytest.mark.parametrize("name", UNARY)
def test_unary(name, shape):
    ours, theirs, make = UNARY[name]
    assert_agrees(ours, theirs, [make(*shape)])


BINARY = {
    "add": (autodiff.add, torch.add, normal),
    "subtract": (autodiff.subtract, torch.sub, normal),
    "multiply": (autodiff.multiply, torch.mul, normal),
    "divide": (autodiff.divide, torch.div, positive),
    "maximum": (autodiff.maximum, torch.maximum, tied),
    "minimum": (autodiff.minimum, torch.minimum, tied),
    "where": (
        lambda a, b: autodiff.where(a > b, a, b * b),
        lambda a, b: torch.where(a > b, a, b * b),
        normal,
    ),
}
SHAPES = [
    ((), ()),
    ((3,), ()),
    ((4, 3), (3,)),
    ((4, 1), (1, 3)),
    ((1, 5, 1), (2, 1, 3)),
    ((0, 3), (1, 3)),
]


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("name", BINARY)
def test_binary_broadcasts(name, shapes):
    ours, theirs, make = BINARY[name]
    a, b = (make(*shape) for shape in shapes)
    assert_agrees(ours, theirs, [a, b])
    assert_agrees(lambda x, y: ours(y, x), lambda x, y: theirs(y, x), [a, b])


AXES = {
    "sum": (autodiff.sum, lambda x, axis, keep: x.sum(axis, keepdim=keep), normal),
    "mean": (autodiff.mean, lambda x, axis, keep: x.mean(axis, keepdim=keep), normal),
    "max": (autodiff.max, lambda x, axis, keep: x.amax(axis, keepdim=keep), tied),
}


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1, (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("name", AXES)
def test_reductions(name, axis, keepdims):
    ours, theirs, make = AXES[name]
    assert_agrees(
        lambda x: autodiff.exp(ours(x, axis, keepdims)),
        lambda x: theirs(x, axis, keepdims).exp(),
        [make(4, 1, 3)],
        [("n", 1, 3)],
    )


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_as_one_operator_and_as_five(axis):
    x = normal(4, 3) * 50
    theirs = lambda x: torch.softmax(x, axis)  # noqa: E731
    assert_agrees(lambda x: autodiff.softmax(x, axis), theirs, [x])
    assert_agrees(lambda x: autodiff.softmax(x, axis, fine=True), theirs, [x])


MATRICES = [
    ((3, 4), (4, 2)),
    ((4,), (4,)),
    ((4,), (4, 2)),
    ((3, 4), (4,)),
    ((5, 3, 4), (4, 2)),
    ((5, 3, 4), (5, 4, 1)),
    ((3, 4), (5, 4, 2)),
    ((1, 2, 3, 4), (5, 1, 4, 2)),
    ((2, 3, 4), (4,)),
    ((4,), (5, 4, 2)),
]


@pytest.mark.parametrize("shapes", MATRICES)
def test_matmul(shapes):
    arrays = [normal(*shape) for shape in shapes]
    assert_agrees(lambda a, b: autodiff.tanh(a @ b), lambda a, b: torch.tanh(a @ b), arrays)


@pytest.mark.parametrize("padding", [0, 2])
def test_conv2d(padding):
    assert_agrees(
        lambda x, w: autodiff.tanh(autodiff.conv2d(x, w, padding=padding)),
        lambda x, w: torch.tanh(functional.conv2d(x, w, padding=padding)),
        [normal(2, 3, 7, 6), normal(4, 3, 3, 2)],
        [("b", 3, "h", "w"), (4, 3, 3, 2)],
    )


SHAPINGS = {
    "reshape": lambda x: x.reshape((3, 8)),
    "reshape -1": lambda x: x.reshape((2, -1)),
    "transpose": lambda x: x.T if isinstance(x, autodiff.Variable) else x.permute(2, 1, 0),
    "axes": lambda x: (x.transpose if isinstance(x, autodiff.Variable) else x.permute)((1, 2, 0)),
    "row": lambda x: x[1],
    "last": lambda x: x[:, :, -1],
    "slice": lambda x: x[1:, 0:3:2, :-1],
    "beyond": lambda x: x[0:9, 2:1],
}


@pytest.mark.parametrize("name", SHAPINGS)
def test_shaping(name):
    change = SHAPINGS[name]
    assert_agrees(
        lambda x: autodiff.exp(change(x) * 2), lambda x: torch.exp(change(x) * 2), [normal(2, 3, 4)]
    )


def test_a_division_that_sizes_leave_open_is_settled_at_the_call():
    """Maxout with symbolic sizes: the largest of each three (Goodfellow et al. 2013)."""
    x = autodiff.variable("x", ("n", "m"))
    y = autodiff.max(x.reshape(x.shape[0], x.shape[1] // 3, 3), axis=2)
    assert str(y.shape) == "(n, m//3)"
    f = autodiff.function([x], [y, *autodiff.gradients(autodiff.sum(y), [x])])
    for n, m in [(2, 6), (1, 9)]:
        array = normal(n, m)
        value, g = f(array)
        groups = array.reshape(n, m // 3, 3)
        assert np.array_equal(value, groups.max(2))
        assert np.array_equal(g.reshape(groups.shape), groups == groups.max(2, keepdims=True))
    with pytest.raises(ValueError, match="cannot reshape"):
        f(normal(2, 5))


def test_a_window_of_symbolic_size_slides():
    """Sizes follow through slices: n − 1."""
    assert_agrees(
        lambda x: autodiff.exp(x[1:] - x[:-1]),
        lambda x: (x[1:] - x[:-1]).exp(),
        [normal(6)],
        [("n",)],
    )


def test_sigmoid_far_out_does_not_overflow():
    x = autodiff.variable("x", shape=(2,))
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(
            autodiff.function([x], [autodiff.sigmoid(x)])(np.array([-1e4, 1e4]))[0], [0, 1]
        )
