"""Checks behind the exercises of 03: recurrences by hand, their gradients, their gates."""

from __future__ import annotations

import functools
import math

from helpers.exercises.core import call, close, exercise, wrong

SHARES = ("inputs", "states", "h")  # what the cell with one gate is given


@exercise
def savings_as_recurrence(answer):
    """answer(rate) -> (u, w): h = u h + w b, repeated, is the balance at the ends of years."""
    for rate in (0.0, 0.05, 0.5):
        pair = call(answer, rate)
        try:
            u, w = (float(part) for part in pair)
        except (TypeError, ValueError):
            wrong(f"expected two numbers (u, w), got {pair!r}")
        balance = mine = 0.0
        for year, deposit in enumerate((100.0, 0.0, 50.0)):
            balance = (balance + deposit) * (1 + rate)
            mine = u * mine + w * deposit
            close(mine, balance, f"the balance after year {year + 1} at a rate of {rate:.0%}")


@exercise
def rnn_backward_step(answer):
    """answer(d_h, h_t, h_before, U) -> (d_a, d_before, d_U) of one step of a tanh RNN."""
    import torch

    torch.manual_seed(0)
    for B, H in ((1, 1), (2, 3), (4, 2)):
        a, U = torch.randn(B, H).double(), torch.randn(H, H).double()
        before = torch.randn(B, H).double().requires_grad_()
        U.requires_grad_()
        total = (a + before @ U.T).detach().requires_grad_()  # U h on its own leaf
        h = torch.tanh(total)
        d_h = torch.randn(B, H).double()
        (d_a,) = torch.autograd.grad(h, total, d_h)
        d_before, d_U = torch.autograd.grad(torch.tanh(a + before @ U.T), (before, U), d_h)
        with torch.no_grad():
            got = call(answer, d_h.clone(), h.detach(), before.detach(), U.detach())
        if not (isinstance(got, (tuple, list)) and len(got) == 3):
            wrong(f"expected three tensors (d_a, d_before, d_U), got {type(got).__name__}")
        for name, mine, true in zip(
            ("d_a", "d_before", "d_U"), got, (d_a, d_before, d_U), strict=True
        ):
            close(mine, true, f"{name} for B={B}, H={H}", rtol=1e-6, atol=1e-9)


@exercise
def reach_of_the_bound(answer):
    """answer(U, left) -> the smallest k with norm(U)^k < left, or None."""
    import torch

    torch.manual_seed(0)
    for size, norm, left in ((1, 0.5, 0.2), (3, 0.9, 1e-3), (4, 0.99, 0.5), (2, 0.3, 0.9)):
        U = torch.randn(size, size).double()
        U *= norm / torch.linalg.matrix_norm(U, 2)
        k = 0
        while norm**k >= left:
            k += 1
        got = call(answer, U.clone(), left)
        close(got, k, f"k for a norm of {norm} and a share of {left}")

    @functools.wraps(answer)
    def boxed(*given):
        return "k", answer(*given)  # here None is an answer, and no sign of an empty stub

    triangle = torch.tensor([[0.0, 5.0], [0.0, 0.0]]).double()  # a radius of 0, a norm of 5
    for U, what in ((triangle, "a norm of 5"), (torch.eye(2).double(), "a norm of 1")):
        if (got := call(boxed, U, 0.1)[1]) is not None:
            wrong(f"for {what} the bound promises nothing, and you return {got!r}")


@exercise
def gru_backward_step(answer):
    """answer(d_h, gates, h_before, U) -> (d_inputs, d_states, d_before) of one GRU step."""
    import torch

    from helpers.recurrent.steps import GRUStep

    torch.manual_seed(0)
    for B, H in ((1, 1), (2, 3), (4, 2)):
        U = torch.randn(3 * H, H).double()
        before = torch.randn(B, H).double().requires_grad_()
        inputs = torch.randn(B, 3 * H).double().requires_grad_()
        states = (before @ U.T + torch.randn(3 * H).double()).detach().requires_grad_()
        d_h = torch.randn(B, H).double()

        def step(inputs, states, before):
            (i_r, i_z, i_n), (s_r, s_z, m) = inputs.chunk(3, 1), states.chunk(3, 1)
            r, z = torch.sigmoid(i_r + s_r), torch.sigmoid(i_z + s_z)
            n = torch.tanh(i_n + r * m)
            return GRUStep(r, z, m, n, (1 - z) * n + z * before)

        gates = step(inputs, states, before)
        d_inputs, d_states, copied = torch.autograd.grad(gates.state, (inputs, states, before), d_h)
        wanted = (d_inputs, d_states, copied + d_states @ U)
        plain = GRUStep(*(part.detach().clone() for part in gates))
        with torch.no_grad():
            got = call(answer, d_h.clone(), plain, before.detach().clone(), U.clone())
        if not (isinstance(got, (tuple, list)) and len(got) == 3):
            wrong(f"expected (d_inputs, d_states, d_before), got {type(got).__name__}")
        for name, mine, true in zip(("d_inputs", "d_states", "d_before"), got, wanted, strict=True):
            close(mine, true, f"{name} for B={B}, H={H}")


@exercise
def gru_from_equations(answer):
    """answer(x, h, W, U, b, c) -> h_t (B, H), with the blocks in the order reset, update, new."""
    import torch

    torch.manual_seed(0)
    for B, inputs, H in ((1, 1, 1), (2, 3, 4)):
        cell = torch.nn.GRUCell(inputs, H)
        x, h = torch.randn(B, inputs), torch.randn(B, H)
        with torch.no_grad():
            want = cell(x, h)
            got = call(answer, x, h, cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh)
        close(got, want, f"h_t for B={B}, I={inputs}, H={H}", rtol=1e-4, atol=1e-5)


@exercise
def one_gate_for_both(answer):
    """answer(inputs, states, h) -> h_t (..., H) of a GRU with r = z; shares: reset, update, new."""
    import torch

    torch.manual_seed(0)
    for shape in ((1, 1), (2, 3), (3, 2, 4)):
        inputs, states = torch.randn(3, *shape).double(), torch.randn(3, *shape).double()
        h = torch.randn(shape).double()
        z = torch.sigmoid(inputs[1] + states[1])
        want = (1 - z) * torch.tanh(inputs[2] + z * states[2]) + z * h
        given = [part.clone() for part in (inputs, states, h)]
        got = call(answer, given[0].unbind(0), given[1].unbind(0), given[2])
        close(got, want, f"h_t for shares of shape {shape}")
        for name, before, after in zip(SHARES, (inputs, states, h), given, strict=True):
            if not torch.equal(before, after):
                wrong(f"it changes {name} in place: the gradient of the step before needs it as is")
    _one_gate_gradients(answer)


def _one_gate_gradients(answer) -> None:
    """Refuse a state through which other gradients come back than through the equations."""
    import torch

    leaves = [torch.randn(3, 2, 3).double().requires_grad_() for _ in range(2)]
    leaves.append(torch.randn(2, 3).double().requires_grad_())
    inputs, states, h = leaves
    got = call(answer, inputs.unbind(0), states.unbind(0), h)
    if not getattr(got, "requires_grad", False):
        wrong("no gradient comes back through the state that it returns: is it torch throughout?")
    z = torch.sigmoid(inputs[1] + states[1])
    want = (1 - z) * torch.tanh(inputs[2] + z * states[2]) + z * h
    weight = torch.randn(2, 3).double()
    mine = torch.autograd.grad(got, leaves, weight, allow_unused=True)
    true = torch.autograd.grad(want, leaves, weight)
    for name, found, due in zip(SHARES, mine, true, strict=True):
        if found is None:
            wrong(f"right, but no gradient comes back to {name}: is it cut off on the way?")
        close(found, due, f"h_t is right, but the gradient that comes back to {name} is not")


@exercise
def bias_for_half_life(answer):
    """answer(steps) -> bias of the update gate at which σ(bias)^steps = 1/2."""
    for steps in (1, 10, 100):
        got = call(answer, steps)
        try:
            bias = float(getattr(got, "item", lambda got=got: got)())
        except (TypeError, ValueError):
            wrong(f"expected a number, got {got!r}")
        left = (1 / (1 + math.exp(min(700.0, -bias)))) ** steps
        if not math.isclose(left, 0.5, rel_tol=1e-4):
            wrong(
                f"with the bias {bias:.3f} a state keeps {left:.3f} of itself after {steps} steps"
            )
