"""Gradients by hand against torch.nn; Jacobians against autograd; clipping."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from helpers.recurrent.gradients import (
    Gradients,
    clip_by_norm,
    finite_difference,
    gru_backward,
    gru_forward,
    rnn_backward,
    rnn_forward,
)
from helpers.recurrent.jacobians import (
    gru_jacobians,
    norms_by_lag,
    power_bound,
    rnn_jacobians,
    spectral_radius,
    with_spectral_radius,
)
from helpers.recurrent.steps import gru_step, rnn_step

CELLS = {"rnn": (1, nn.RNN), "gru": (3, nn.GRU)}


def problem(cell, T, B, inputs, H, seed=0):
    """x, h0, W, U, b, c in float64, and a random weight for every output."""
    G = CELLS[cell][0]
    torch.manual_seed(seed)
    shapes = [(T, B, inputs), (B, H), (G * H, inputs), (G * H, H), (G * H,), (G * H,)]
    return [torch.randn(s, dtype=torch.float64) for s in shapes], torch.randn(T, B, H).double()


def by_hand(cell, tensors, output_gradient):
    x, _, W, U, _, _ = tensors
    if cell == "rnn":
        return rnn_backward(x, rnn_forward(*tensors), W, U, output_gradient)
    return gru_backward(x, *gru_forward(*tensors), W, U, output_gradient)


@pytest.mark.parametrize("cell", CELLS)
@given(st.tuples(*(st.integers(1, n) for n in (6, 3, 4, 5))), st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_by_hand_equals_torch_nn(cell, shape, seed):
    tensors, weights = problem(cell, *shape, seed)
    found = by_hand(cell, tensors, weights)
    reference = CELLS[cell][1](*shape[2:]).double()
    x, h0 = (t.clone().requires_grad_() for t in tensors[:2])
    with torch.no_grad():
        for parameter, value in zip(reference.parameters(), tensors[2:], strict=True):
            parameter.copy_(value)
    loss = (reference(x, h0.unsqueeze(0))[0] * weights).sum()
    expected = torch.autograd.grad(loss, [x, h0, *reference.parameters()])
    for name, a, b in zip(Gradients._fields, found, expected, strict=True):
        torch.testing.assert_close(a, b, atol=1e-10, rtol=1e-10, msg=lambda m, n=name: f"{n}: {m}")


def test_jacobians_equal_autograd():
    for cell, step in (("rnn", rnn_step), ("gru", lambda *a: gru_step(*a).state)):
        (x, h0, *parameters), _ = problem(cell, 3, 1, 2, 4)
        if cell == "rnn":
            h = rnn_forward(x, h0, *parameters)
            found = rnn_jacobians(h[:, 0], parameters[1])
        else:
            h, gates = gru_forward(x, h0, *parameters)
            found = gru_jacobians(h[:, 0], type(gates)(*(g[:, 0] for g in gates)), parameters[1])
        for t in range(3):
            exact = torch.autograd.functional.jacobian(
                lambda s, x_t=x[t], step=step, p=parameters: step(x_t, s, *p)[0], h[t]
            )
            torch.testing.assert_close(found[t], exact[:, 0])


def test_norms_follow_the_product_and_stay_below_the_bound():
    (x, h0, W, U, b, c), _ = problem("rnn", 12, 1, 3, 6)
    U = with_spectral_radius(U, 1.2)
    assert spectral_radius(U) == pytest.approx(1.2)
    h = rnn_forward(x, h0, W, U, b, c)
    jacobians = rnn_jacobians(h[:, 0], U)
    norms = norms_by_lag(jacobians)
    exact = torch.linalg.matrix_norm(jacobians[-1] @ jacobians[-2] @ jacobians[-3], 2)
    torch.testing.assert_close(norms[3], exact)
    assert (norms <= power_bound(U, 12) * (1 + 1e-9)).all()


def test_a_norm_above_one_need_not_explode():
    """Row A16: the source takes ‖g'U‖ > 1 for sufficient; a nilpotent U refutes it."""
    U = torch.tensor([[0.0, 5.0], [0.0, 0.0]])
    assert torch.linalg.matrix_norm(U, 2) > 1
    assert norms_by_lag(U.expand(3, 2, 2))[2] == 0
    with pytest.raises(ValueError, match="spectral radius 0"):
        with_spectral_radius(U, 1.0)


@pytest.mark.parametrize("limit", [0.1, 1.0, 1e6])
def test_clipping_equals_torch(limit):
    layers = nn.Linear(4, 3), nn.Linear(4, 3)
    layers[1].load_state_dict(layers[0].state_dict())
    x = torch.randn(5, 4)
    for layer in layers:
        layer(x).square().sum().backward()
    norm = clip_by_norm([p.grad for p in layers[0].parameters()], limit)
    expected = nn.utils.clip_grad_norm_(layers[1].parameters(), limit)
    assert norm == pytest.approx(expected.item(), rel=1e-5)
    for a, b in zip(layers[0].parameters(), layers[1].parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-6)


def test_what_cannot_be_clipped_or_differenced_is_refused():
    with pytest.raises(ValueError, match="limit=0"):
        clip_by_norm([], 0)
    assert clip_by_norm([], 1) == 0
    with pytest.raises(ValueError, match="float64"):
        finite_difference(lambda: torch.zeros(()), torch.zeros(2))
