"""Updates, and who is before whom."""

import numpy as np
import pytest

from helpers import autodiff as ad
from helpers.autodiff import passes

ALL = [
    passes.fast_math.collect_terms,
    passes.share_subexpressions,
    passes.fuse,
]


def test_state_is_kept_between_runs():
    w = ad.state("w", [1.0, 2.0])
    step = ad.function([], [ad.update(w, 2 * w)])
    assert [step()[0].tolist() for _ in range(3)] == [[2, 4], [4, 8], [8, 16]]
    assert w.value.tolist() == [8, 16]
    w.value = np.array([0.5, 0.0])
    assert step()[0].tolist() == [1, 0]


def test_what_is_read_is_a_copy():
    w = ad.state("w", [1.0])
    (y,) = ad.function([], [ad.add_update(w, 1)])()
    before = w.value
    ad.function([], [ad.add_update(w, 1)])()
    assert (before, y, w.value) == ([2.0], [2.0], [3.0])


def test_an_update_overtakes_a_read_unless_it_waits():
    w, x = ad.state("w", [1.0, 2.0]), ad.variable("x", (2,))
    y = w * x
    for outputs, expected, given in [
        ([ad.update(w, 10 * w), y], [10, 20], []),
        ([y, ad.update(w, 10 * w)], [1, 2], []),
        ([ad.update(w, 10 * w), y], [1, 2], [passes.order_updates]),
    ]:
        w.value = [1.0, 2.0]
        values = ad.function([x], outputs, given)(np.ones(2))
        assert values[outputs.index(y)].tolist() == expected
        assert w.value.tolist() == [10, 20]


@pytest.mark.parametrize("before", [[], ALL], ids=["alone", "after all passes"])
def test_the_pass_puts_updates_behind_every_reader(before):
    w, v = ad.state("w", [[1.0, 2.0]]), ad.state("v", [5.0])
    x = ad.variable("x", (2, 1))
    through_view = ad.sum(w.T * x)
    copy = w * 1  # a pass makes w of it, which would be read too late
    new_w, new_v = ad.update(w, w + v), ad.update(v, 3 * v)
    function = ad.function(
        [x], [new_v, new_w, through_view, copy + 0.5, 2 * new_w], [*before, passes.order_updates]
    )
    got = [each.tolist() for each in function(np.ones((2, 1)))]
    assert got == [[15], [[6, 7]], 3, [[1.5, 2.5]], [[12, 14]]]


def test_who_needs_old_and_new_is_refused():
    w = ad.state("w", [1.0])
    new = ad.update(w, w + 1)
    with pytest.raises(ValueError, match="needs both"):
        ad.function([], [w * new], [passes.order_updates])
    with pytest.raises(ValueError, match="second update"):
        ad.function([], [new, ad.update(w, w + 2)], [passes.order_updates])


def test_updates_in_a_row():
    w = ad.state("w", 1.0)
    double = ad.update(w, 2 * w)
    again = ad.add_update(double, double * w * 0 + 3)
    assert ad.function([], [again, ad.update(again, again * again)])()[1] == 25


def test_two_equal_updates_stay_two():
    w = ad.state("w", 1.0)
    first = ad.add_update(w, 1)
    function = ad.function([], [ad.add_update(first, 1)], [*ALL, passes.order_updates])
    assert function() == [3]


def test_gradients_pass_through_an_update_to_the_new_value():
    w, x = ad.state("w", 2.0), ad.variable("x")
    (g,) = ad.gradients(ad.update(w, x * x) * 3, [x])
    assert ad.function([x], [g])(np.array(5.0)) == [30]
    (g,) = ad.gradients(ad.add_update(w, x) * 3, [w])
    assert ad.function([x], [g])(np.array(5.0)) == [3]


def test_planned_memory_leaves_states_alone():
    w, x = ad.state("w", np.ones(4)), ad.variable("x", (4,))
    y = ad.exp(w)  # would be written over w, were w the plan's to write
    outputs = passes.order_updates([y, ad.update(w, ad.tanh(w + x))])
    plan, memory = ad.plan([x], outputs), ad.Allocator()
    values = plan(np.zeros(4), allocator=memory)
    np.testing.assert_allclose(values[0], np.e)
    np.testing.assert_allclose(w.value, np.tanh(1))
    assert plan.peak == memory.peak == 2 * 32


def test_what_is_no_state_is_refused():
    w, x = ad.state("w", [1.0, 2.0]), ad.variable("x", (2,))
    with pytest.raises(TypeError, match="expects a state"):
        ad.update(x, x)
    with pytest.raises(TypeError, match="expects a state"):
        ad.update(ad.reshape(w, (1, 2)), x)
    with pytest.raises((TypeError, ValueError), match="update expects"):
        ad.update(w, ad.variable("m", (3,)))
    with pytest.raises(TypeError, match="state's type"):
        ad.update(w, ad.variable("m", (2,), "float32"))
    with pytest.raises(TypeError, match="w expects float64"):
        w.value = np.zeros(3)
    with pytest.raises(ValueError, match="is not fed"):
        ad.function([w], [w * 2])


def test_control_dependencies_alone_make_something_run():
    w, v = ad.state("w", 1.0), ad.state("v", 1.0)
    silent = ad.update(v, v + 1)
    order = ad.topological([ad.apply(silent.maker.operator, v, w, after=[w * 3])])
    assert [str(node.operator) for node in order] == ["full(3.0)", "multiply", "update"]


@pytest.mark.parametrize("make", [ad.function, ad.plan], ids=["function", "plan"])
def test_an_output_reads_the_old_value(make):
    """The state itself, a view of it, and a new value that a later update writes over."""
    w = ad.state("w", [1.0, 2.0])
    new = ad.update(w, 2 * w)
    outputs = [w, w.reshape(2, 1), new, new[:1], ad.add_update(new, 1)]
    run = make([], passes.order_updates(outputs))
    expected = [[1, 2], [[1], [2]], [2, 4], [2], [3, 5]]
    assert [each.tolist() for each in run()] == expected
    assert w.value.tolist() == [3, 5]
