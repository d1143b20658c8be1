"""Checks behind the exercises of 03: recurrences by hand, their gradients, their gates."""

from __future__ import annotations

import math

from helpers.exercises.core import call, close, exercise, wrong


@exercise
def savings_as_recurrence(answer):
    """answer(rate) -> (u, w): h = u h + w b, repeated, is the balance at the ends of years."""
    for rate in (0.0, 0.05, 0.5):
        pair = call(answer, rate)
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
            wrong(f"expected two numbers (u, w), got {pair!r}")
        u, w = pair
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
def bias_for_half_life(answer):
    """answer(steps) -> bias of the update gate at which σ(bias)^steps = 1/2."""
    for steps in (1, 10, 100):
        bias = float(call(answer, steps))
        left = (1 / (1 + math.exp(-bias))) ** steps
        if not math.isclose(left, 0.5, rel_tol=1e-4):
            wrong(
                f"with the bias {bias:.3f} a state keeps {left:.3f} of itself after {steps} steps"
            )
