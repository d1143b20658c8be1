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


def averaging(line, more=()):
    """Return a step of training that averages over a line, and the weights."""
    inputs, loss, weights, gradients = network()
    updates = [ad.add_update(w, -0.1 * g) for w, g in zip(weights, gradients, strict=True)]
    average = ad.average_gradients(gradients, line)
    return ad.function(inputs, [loss, *updates], [average, *more, passes.order_updates]), weights


def on_a_rank():
    """Return the weights after four steps in each way, and what a watched step did."""
    from mpi4py import MPI

    found, rank = {}, MPI.COMM_WORLD.rank
    for more in ([], [passes.share_subexpressions, passes.fuse]):
        line = Line(MPI.COMM_WORLD)
        step, weights = averaging(line, more)
        for _ in range(4):
            step(*data(rank))
        line.close()
        found[bool(more)] = [w.value for w in weights]
    line = Line(MPI.COMM_WORLD)
    step, _ = averaging(line)
    arrays = data(rank, rows=20_000)
    step(*arrays)
    _, events = ad.watch(step, *arrays, line=line)
    line.close()
    return found, events


@pytest.fixture(scope="module")
def three():
    """Three ranks: of two, the order in which gradients are added does not matter."""
    return run_ranks(3, on_a_rank)


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
def test_equal_to_one_process_to_the_bit(three):
    expected = in_one_process(3, steps=4)
    for found, _ in three:
        for way, weights in found.items():
            for ours, theirs in zip(weights, expected, strict=True):
                assert np.array_equal(ours, theirs), way


@pytest.mark.mpi
def test_the_network_is_busy_while_gradients_are_computed(three):
    for _, events in three:
        sent = [e for e in events if e.lane == "network"]
        assert [e.label for e in sent] == ["4000 B", "24000 B", "19200 B"], "the last layer's first"
        last = max(e.stop for e in events if e.lane == "compute" and e.label == "matmul")
        assert sent[0].start < last


def test_begun_as_soon_as_it_can_be_and_waited_for_last():
    from mpi4py import MPI

    line = Line(MPI.COMM_SELF)
    step, _ = averaging(line)
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
