"""Functions of a graph: arrays in, arrays out, sizes bound and checked when called."""

import tracemalloc

import numpy as np
import pytest

from helpers import autodiff

n_by_3 = autodiff.variable("x", shape=("n", 3))


def test_sizes_are_bound_anew_at_each_call():
    run = autodiff.function([n_by_3], [autodiff.mean(n_by_3), autodiff.full(1.0, ("n",))])
    for n in (1, 4, 2):
        mean, count = run(np.full((n, 3), 2.0))
        assert mean == 2
        assert count.tolist() == [1] * n


def test_what_does_not_fit_is_refused_at_the_call():
    w = autodiff.variable("w", shape=(3, "n"))
    run = autodiff.function([n_by_3, w], [n_by_3 @ w])
    with pytest.raises(ValueError, match=r"w expects \(3, n\) with n = 2; got \(3, 4\)"):
        run(np.ones((2, 3)), np.ones((3, 4)))
    with pytest.raises(ValueError, match=r"x expects \(n, 3\).* got \(2, 4\)"):
        run(np.ones((2, 4)), np.ones((3, 2)))
    with pytest.raises(TypeError, match=r"x expects float64 \(n, 3\); got float32 \(2, 3\)"):
        run(np.ones((2, 3), np.float32), np.ones((3, 2)))
    with pytest.raises(TypeError, match="2 inputs expects as many; got 1"):
        run(np.ones((2, 3)))


def test_inputs_must_suffice_and_differ():
    w = autodiff.variable("w", shape=(3,))
    with pytest.raises(ValueError, match="<w: float64"):
        autodiff.function([n_by_3], [n_by_3 * w])
    with pytest.raises(ValueError, match="each input once"):
        autodiff.function([w, w], [w])


def test_feeding_the_middle_leaves_out_what_made_it():
    middle = autodiff.exp(n_by_3)
    (got,) = autodiff.function([middle], [middle * 2])(np.ones((1, 3)))
    assert got.tolist() == [[2, 2, 2]]


def test_results_are_nobody_elses_memory():
    x = autodiff.variable("x", shape=(2, 2))
    given = np.arange(4.0).reshape(2, 2)
    outputs = autodiff.function([x], [x, x.T, x[0], autodiff.broadcast(x[0], (3, 2)), x + 0])(given)
    for each in outputs:
        assert not np.shares_memory(each, given)
        each += 1  # writable
    assert given.tolist() == [[0, 1], [2, 3]]


def test_arrays_in_any_order_of_memory():
    x = autodiff.variable("x", shape=(2, 3))
    value = np.arange(6.0).reshape(3, 2).T
    (got,) = autodiff.function([x], [x.reshape(6) * 1])(value)
    assert got.tolist() == value.ravel().tolist()


def test_values_are_dropped_after_their_last_reader():
    """A chain of 50 needs two arrays at a time, not 50."""
    x = autodiff.variable("x", shape=(1000, 100))
    y = x
    for _ in range(50):
        y = autodiff.tanh(y * 0.5)
    run, value = autodiff.function([x], [y]), np.zeros((1000, 100))
    tracemalloc.start()
    run(value)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4.5 * value.nbytes
