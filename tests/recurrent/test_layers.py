"""RNN and GRU against torch.nn: every shape; exact special cases; bad input."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from helpers.recurrent.layers import GRU, RNN

PAIRS = [(RNN, nn.RNN), (GRU, nn.GRU)]
shapes = st.tuples(*(st.integers(1, n) for n in (7, 4, 5, 6)))  # T, B, I, H
few = settings(max_examples=25, deadline=None)


def pair(ours, theirs, *sizes):
    reference, layer = theirs(*sizes), ours(*sizes)
    layer.load_state_dict(reference.state_dict())
    reference.load_state_dict(layer.state_dict())  # and back
    return layer, reference


def assert_same(found, expected):
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=0)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
@given(shapes, st.booleans(), st.integers(0, 99))
@few
def test_outputs_equal_torch_nn(ours, theirs, shape, initial, seed):
    torch.manual_seed(seed)
    T, B, inputs, H = shape
    layer, reference = pair(ours, theirs, inputs, H)
    x = torch.randn(T, B, inputs)
    h0 = torch.randn(1, B, H) if initial else None
    found, expected = layer(x, h0), reference(x, h0)
    assert_same(found, expected)
    for output, _ in (found, expected):
        output.square().sum().backward()
    for mine, true in zip(layer.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, true.grad, atol=1e-4, rtol=1e-4)


def biased(layer, block, value):
    """Push one gate's bias so far that σ(·) is exactly 0 or 1 in float32."""
    H = layer.hidden_size
    with torch.no_grad():
        layer.bias_ih_l0[block * H : (block + 1) * H] = value
    return layer


def test_ablations_are_the_special_cases():
    full = GRU(3, 4)
    x, h0 = torch.randn(5, 2, 3), torch.randn(1, 2, 4)
    for missing, block, value in (("reset", 0, 200.0), ("update", 1, -200.0)):
        ablated = GRU(3, 4, **{missing: False})
        ablated.load_state_dict(full.state_dict())
        held = GRU(3, 4)
        held.load_state_dict(full.state_dict())
        assert_same(ablated(x, h0), biased(held, block, value)(x, h0))


def test_trace_shows_the_gates_of_the_same_run():
    layer = GRU(3, 4)
    x = torch.randn(5, 2, 3)
    gates = layer.trace(x)
    torch.testing.assert_close(gates.state, layer(x)[0], atol=1e-6, rtol=0)
    assert ((gates.reset > 0) & (gates.reset < 1)).all()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda gru: gru(torch.randn(5, 2, 7)), r"\(5, 2, 7\).*expected \(T, B, 3\)"),
        (lambda gru: gru(torch.randn(0, 2, 3)), "at least 1"),
        (lambda gru: GRU(3, 4, reset=False).trace(torch.randn(5, 2, 3)), "full GRU"),
    ],
)
def test_bad_input_is_named(call, says):
    with pytest.raises(ValueError, match=says):
        call(GRU(3, 4))
