"""Operators that run at once, and what was recorded."""

import numpy as np
import pytest

from helpers import autodiff as ad


def inverse(a, epsilon=1e-13):
    """Invert by Newton's iteration; return the inverse and how many steps it took."""
    one = ad.constant(np.eye(a.shape[0]))
    x, steps = ad.transpose(a) / ad.sum(a * a), 0
    while ad.max(ad.abs(one - a @ x)) > epsilon:
        x, steps = x @ (2 * one - a @ x), steps + 1
    return x, steps


@pytest.mark.parametrize("n", [1, 3, 6])
def test_inverse_by_newton_and_its_gradient(n):
    random = np.random.default_rng(n)
    A, G = random.normal(size=(n, n)) + 3 * np.eye(n), random.normal(size=(n, n))
    a = ad.eager(A, "a")
    x, steps = inverse(a)
    (g,) = ad.gradients(ad.sum(x * G), [a])
    expected = np.linalg.inv(A)
    assert n == 1 or steps > 3
    np.testing.assert_allclose(x.value, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(g.value, -expected.T @ G @ expected.T, rtol=1e-9, atol=1e-11)


def test_a_recorded_path_runs_again_as_it_was():
    a = ad.eager(np.diag([1.0, 2.0]))
    x, _ = inverse(a)
    again = ad.function([a], [x])
    np.testing.assert_allclose(again(np.diag([2.0, 1.0]))[0], np.diag([0.5, 1.0]), rtol=1e-12)
    harder = np.diag([1.0, 1000.0])  # needs more steps than were recorded
    assert abs(again(harder)[0] - np.linalg.inv(harder)).max() > 0.1


def test_same_values_as_a_function():
    array = np.random.default_rng(0).normal(size=(4, 3))

    def network(x):
        h = ad.tanh(x[1:] @ ad.transpose(x)) + 1
        return ad.mean(ad.softmax(h) * ad.relu(h))

    x, symbolic = ad.eager(array), ad.variable("x", (4, 3))
    pair, graph = network(x), network(symbolic)
    (g,), (h,) = ad.gradients(pair, [x]), ad.gradients(graph, [symbolic])
    expected = ad.function([symbolic], [graph, h])(array)
    assert pair.value == expected[0]
    assert np.array_equal(g.value, expected[1])


def test_a_variable_without_a_value_waits():
    x, y = ad.eager([1.0, 2.0]), ad.variable("y", (2,))
    z = x * y
    with pytest.raises(TypeError, match="no value before the graph runs"):
        z.value  # noqa: B018
    with pytest.raises(TypeError, match="no value"):
        bool(ad.sum(z) > 0)
    assert ad.function([y], [z + x])(np.array([3.0, 4.0]))[0].tolist() == [4, 10]


def test_zero_gradients_and_constants_have_values():
    x, y = ad.eager([1.0, 2.0]), ad.eager([1.0])
    assert ad.gradients(ad.sum(x), [y])[0].value.tolist() == [0]
    assert ad.full(2.0, (2,)).value.tolist() == [2, 2]
    with pytest.raises(TypeError, match="no value"):
        ad.full(2.0, ("n",)).value  # noqa: B018
    with pytest.raises(TypeError, match="no value"):
        ad.mean(ad.full(2.0, ("n",))).value  # noqa: B018


def test_a_state_takes_part_with_what_it_holds():
    w, x = ad.state("w", 2.0), ad.eager(3.0)
    y = w * x
    new = ad.add_update(w, ad.gradients(y, [w])[0])
    assert (y.value, new.value, w.value) == (6, 5, 5)


def test_values_are_copies():
    array = np.ones(2)
    x = ad.eager(array)
    array[0] = 7
    y = ad.reshape(x, (2, 1))
    y.value[0] = 9
    assert x.value.tolist() == [1, 1]
    assert y.value.tolist() == [[1], [1]]
