"""Answers to the exercises of 03: the right one, and wrong ones that a reader could write."""

import math

import torch

from tests.exercises.case import Case


def backward_step(d_h, h_t, h_before, U):
    d_a = d_h * (1 - h_t**2)
    return d_a, d_a @ U, d_a.T @ h_before


def forgot_the_slope(d_h, h_t, h_before, U):
    return d_h, d_h @ U, d_h.T @ h_before


def transposed(d_h, h_t, h_before, U):
    d_a = d_h * (1 - h_t**2)
    return d_a, d_a @ U.T, d_a.T @ h_before


def gru(x, h, W, U, b, c, swapped=False, early=False):
    i_r, i_z, i_n = (x @ W.T + b).chunk(3, 1)
    s_r, s_z, s_n = (h @ U.T + c).chunk(3, 1)
    r, z = torch.sigmoid(i_r + s_r), torch.sigmoid(i_z + s_z)
    if early:  # the reset gate before the product: Cho et al., not this layout
        H = h.shape[1]
        s_n = (r * h) @ U[2 * H :].T + c[2 * H :]
        n = torch.tanh(i_n + s_n)
    else:
        n = torch.tanh(i_n + r * s_n)
    return z * n + (1 - z) * h if swapped else (1 - z) * n + z * h


CASES = {
    "savings_as_recurrence": Case(
        right=lambda rate: (1 + rate, 1 + rate),
        wrong=[lambda rate: (1 + rate, 1.0), lambda rate: (rate, 1.0), lambda rate: 1 + rate],
    ),
    "rnn_backward_step": Case(right=backward_step, wrong=[forgot_the_slope, transposed]),
    "gru_from_equations": Case(
        right=gru,
        wrong=[
            lambda *a: gru(*a, swapped=True),
            lambda *a: gru(*a, early=True),
        ],
    ),
    "bias_for_half_life": Case(
        right=lambda steps: math.log(0.5 ** (1 / steps) / (1 - 0.5 ** (1 / steps))),
        wrong=[lambda steps: math.log(0.5) / steps, lambda steps: 0.5 ** (1 / steps)],
    ),
}
