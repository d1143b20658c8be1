"""An all-reduce behind each gradient, on real ranks, against one process."""

from itertools import pairwise

import numpy as np
import pytest

from helpers import autodiff as ad
from helpers.autodiff import passes
from helpers.autodiff.parallel import Line, Post, Wait
from tests.mpi.runner import run_ranks

SIZES = (40, 60, 50, 10)
ROWS = 12  # of each rank's part


def network():
    """Four layers with states for weights; return inputs, loss, states, gradients."""
    random = np.random.default_rng(5)
    x, target = ad.variable("x", ("n", SIZES[0])), ad.variable("target", ("n", SIZES[-1]))
    weights = [
        ad.state(f"w{i}", random.normal(size=shape) / 8) for i, shape in enumerate(pairwise(SIZES))
    ]
    h = x
    for w in weights:
        h = ad.tanh(h @ w)
    loss = ad.mean((h - target) ** 2)
    return [x, target], loss, weights, ad.gradients(loss, weights)


def data(part, rows=ROWS):
    random = np.random.default_rng(100 + part)
    return random.normal(size=(rows, SIZES[0])), random.normal(size=(rows, SIZES[-1]))


def on_a_rank(steps, background, change):
    from mpi4py import MPI

    line = Line(MPI.COMM_WORLD, background)
    inputs, loss, weights, gradients = network()
    updates = [ad.add_update(w, -0.1 * g) for w, g in zip(weights, gradients, strict=True)]
    more = [passes.simplify, passes.share_subexpressions] if change else []
    step = ad.function(
        inputs,
        [loss, *updates],
        [ad.average_gradients(gradients, line), *more, passes.order_updates],
    )
    for _ in range(steps):
        step(*data(MPI.COMM_WORLD.rank))
    line.close()
    return [w.value for w in weights]


def in_one_process(parts, steps):
    """Add the parts' gradients, one part after the other, and divide."""
    inputs, _, weights, gradients = network()
    run = ad.function(inputs, gradients)
    for _ in range(steps):
        found = [run(*data(part)) for part in range(parts)]
        for k, w in enumerate(weights):
            total = found[0][k]
            for other in found[1:]:
                total = total + other[k]
            w.value = w.value + -0.1 * (total / parts)
    return [w.value for w in weights]


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("ranks", "background", "change"), [(2, True, False), (3, True, True), (3, False, False)]
)
def test_equal_to_one_process_to_the_bit(ranks, background, change):
    expected = in_one_process(ranks, steps=4)
    for weights in run_ranks(ranks, on_a_rank, 4, background, change):
        for ours, theirs in zip(weights, expected, strict=True):
            assert np.array_equal(ours, theirs)


def test_near_to_one_process_with_all_the_data():
    """The mean of parts of equal size is the mean of all: the same but for the last digits."""
    inputs, _, _weights, gradients = network()
    run = ad.function(inputs, gradients)
    parts = [run(*data(part)) for part in range(3)]
    whole = run(*(np.concatenate(each) for each in zip(*map(data, range(3)), strict=True)))
    for k, expected in enumerate(whole):
        np.testing.assert_allclose(sum(p[k] for p in parts) / 3, expected, rtol=1e-10, atol=1e-14)


def watched_on_a_rank():
    from mpi4py import MPI

    line = Line(MPI.COMM_WORLD)
    inputs, loss, weights, gradients = network()
    updates = [ad.add_update(w, -0.1 * g) for w, g in zip(weights, gradients, strict=True)]
    step = ad.function(
        inputs, [loss, *updates], [ad.average_gradients(gradients, line), passes.order_updates]
    )
    arrays = data(MPI.COMM_WORLD.rank, rows=20_000)
    step(*arrays)
    _, events = ad.watch(step, *arrays, line=line)
    line.close()
    return events


@pytest.mark.mpi
def test_the_network_is_busy_while_gradients_are_computed():
    for events in run_ranks(2, watched_on_a_rank):
        sent = [e for e in events if e.lane == "network"]
        assert [e.label for e in sent] == ["4000 B", "24000 B", "19200 B"], "the last layer's first"
        last = max(e.stop for e in events if e.lane == "compute" and e.label == "matmul")
        assert sent[0].start < last


def test_begun_as_soon_as_it_can_be_and_waited_for_last():
    from mpi4py import MPI

    line = Line(MPI.COMM_SELF)
    inputs, loss, weights, gradients = network()
    updates = [ad.add_update(w, -0.1 * g) for w, g in zip(weights, gradients, strict=True)]
    step = ad.function(
        inputs, [loss, *updates], [ad.average_gradients(gradients, line), passes.order_updates]
    )
    names = [str(node.operator) for node in step.order]
    begun = [i for i, node in enumerate(step.order) if isinstance(node.operator, Post)]
    waited = [i for i, node in enumerate(step.order) if isinstance(node.operator, Wait)]
    products = [i for i, name in enumerate(names) if name == "matmul"]
    made = [step.order.index(step.order[i].inputs[0].maker) for i in begun]
    assert [b - m for b, m in zip(begun, made, strict=True)] == [1, 1, 1]
    assert begun[0] < products[-3], "two gradients are computed after the first was sent"
    assert max(begun[-1], products[-1]) < waited[0]
    step(*data(0))
    line.close()


def test_gradients_of_another_graph_are_refused():
    from mpi4py import MPI

    line = Line(MPI.COMM_SELF)
    inputs, loss, _, _ = network()
    _, _, _, others = network()
    with pytest.raises(ValueError, match="expects gradients of this graph"):
        ad.function(inputs, [loss], [ad.average_gradients(others, line)])
    line.close()
