"""Gradients by hand against torch.nn; Jacobians against autograd."""

from importlib import import_module

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from helpers.recurrent.gradients import (
    Gradients,
    finite_difference,
    gru_backward,
    gru_forward,
    rnn_backward,
    rnn_forward,
    three_checks,
)
from helpers.recurrent.jacobians import (
    gru_jacobians,
    norms_by_lag,
    power_bound,
    random_gru,
    random_rnn,
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


def test_what_cannot_be_differenced_is_refused():
    with pytest.raises(ValueError, match="float64"):
        finite_difference(lambda: torch.zeros(()), torch.zeros(2))


def test_three_witnesses_tell_a_wrong_gradient_by_its_name(capsys):
    def forward(tensors):
        return gru_forward(*tensors)[0][1:]

    def backward(tensors, weight):
        found = gru_backward(
            tensors[0], *gru_forward(*tensors), *tensors[2:4], output_gradient=weight
        )
        return found._replace(W=2 * found.W)

    three_checks(forward, backward, nn.GRU(3, 4).double())
    off = {name: numbers for name, *numbers in map(str.split, capsys.readouterr().out.splitlines())}
    assert all(float(number) > 0.1 for number in off.pop("δW"))
    for name in ("δx", "δh0", "δU", "δb", "δc"):
        assert all(float(number) < 1e-6 for number in off[name])


def test_random_networks_are_those_of_the_claims():
    claimed = import_module("claims.03_gru_derivation")
    norms, bound = random_rnn(2.0, 0.1, seed=3)
    assert norms[-1].item() == claimed.gradient_left(3, radius=2.0, input_size=0.1)[0]
    assert bound[1] > 2
    assert random_gru(0.5, 4.0, seed=3)[-1] == claimed.kept_by_the_gate(3, 0.5, 4.0)[0]
