"""Backpropagation through time by hand, for the RNN and the GRU, as the derivation reads.

Shapes: x (T, B, I), h (T+1, B, H) with h[0] the initial state, W (G·H, I), U (G·H, H), b and c
(G·H). ``output_gradient`` is ∂L/∂h_t from outside for every t, (T, B, H): zero except at the last
step if the loss reads the last state only. A name ``d_a`` stands for ∂L/∂a, δa in the notebook.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from helpers.recurrent.steps import GRUStep, gru_step, rnn_step


class Gradients(NamedTuple):
    """∂L/∂ of each input and parameter, in its own shape."""

    x: Tensor  # (T, B, I)
    h0: Tensor  # (B, H)
    W: Tensor  # (G·H, I)
    U: Tensor  # (G·H, H)
    b: Tensor  # (G·H)
    c: Tensor  # (G·H)


def rnn_forward(x: Tensor, h0: Tensor, W: Tensor, U: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Return all states of a tanh RNN.

    Parameters
    ----------
    x : (T, B, I) Tensor
    h0 : (B, H) Tensor
    W, U : (H, I) and (H, H) Tensor
    b, c : (H,) Tensor

    Returns
    -------
    (T+1, B, H) Tensor
        h_0 ... h_T.
    """
    states = [h0]
    for x_t in x:
        states.append(rnn_step(x_t, states[-1], W, U, b, c))
    return torch.stack(states)


def rnn_backward(x: Tensor, h: Tensor, W: Tensor, U: Tensor, output_gradient: Tensor) -> Gradients:
    """Walk a tanh RNN backwards through time (Werbos 1990) and return every gradient.

    Parameters
    ----------
    x : (T, B, I) Tensor
    h : (T+1, B, H) Tensor
        All states, as :func:`rnn_forward` returns them.
    W, U : (H, I) and (H, H) Tensor
    output_gradient : (T, B, H) Tensor
        ∂L/∂h_t from outside: 0 before the last step if the loss reads the last state only.
    """
    d_a = torch.empty_like(output_gradient)
    d_h = torch.zeros_like(h[0])
    for t in reversed(range(len(x))):
        d_h = d_h + output_gradient[t]  # what h_t did outside, beside what it did to h_{t+1}
        d_a[t] = d_h * (1 - h[t + 1] ** 2)  # tanh' = 1 − tanh²
        d_h = d_a[t] @ U  # on to h_{t-1}
    return collect(x, h, W, d_h, inputs=d_a, states=d_a)


def gru_forward(
    x: Tensor, h0: Tensor, W: Tensor, U: Tensor, b: Tensor, c: Tensor
) -> tuple[Tensor, GRUStep]:
    """Return all states of a GRU, and what each step computed.

    Parameters
    ----------
    x : (T, B, I) Tensor
    h0 : (B, H) Tensor
    W, U : (3H, I) and (3H, H) Tensor
        Their blocks stand in the order reset, update, candidate.
    b, c : (3H,) Tensor

    Returns
    -------
    h : (T+1, B, H) Tensor
    gates : GRUStep
        Each part (T, B, H).
    """
    steps, h = [], h0
    for x_t in x:
        steps.append(gru_step(x_t, h, W, U, b, c))
        h = steps[-1].state
    gates = GRUStep(*(torch.stack(part) for part in zip(*steps, strict=True)))
    return torch.cat([h0.unsqueeze(0), gates.state]), gates


def gru_backward(
    x: Tensor, h: Tensor, gates: GRUStep, W: Tensor, U: Tensor, output_gradient: Tensor
) -> Gradients:
    """Walk a GRU backwards through time and return every gradient.

    Each line is one edge of the graph of ``gru_step``, from the state back to the products.

    Parameters
    ----------
    x : (T, B, I) Tensor
    h, gates
        What :func:`gru_forward` returned.
    W, U : (3H, I) and (3H, H) Tensor
    output_gradient : (T, B, H) Tensor
        As for :func:`rnn_backward`.
    """
    T, B, H = output_gradient.shape
    d_inputs, d_states = x.new_empty(T, B, 3 * H), x.new_empty(T, B, 3 * H)
    d_h = torch.zeros_like(h[0])
    for t in reversed(range(T)):
        r, z, m, n, _ = (part[t] for part in gates)
        d_h = d_h + output_gradient[t]
        d_n = d_h * (1 - z)  # h_t = (1 − z) n + z h
        d_z = d_h * (h[t] - n)
        d_an = d_n * (1 - n**2)  # n = tanh(a_n), a_n = W_n x + b_n + r m
        d_r = d_an * m
        d_m = d_an * r  # m = U_n h + c_n
        d_az = d_z * z * (1 - z)  # σ' = σ (1 − σ)
        d_ar = d_r * r * (1 - r)
        torch.cat([d_ar, d_az, d_an], dim=1, out=d_inputs[t])
        torch.cat([d_ar, d_az, d_m], dim=1, out=d_states[t])
        d_h = d_h * z + d_states[t] @ U  # the copy, and the three products with U
    return collect(x, h, W, d_h, d_inputs, d_states)


def collect(x: Tensor, h: Tensor, W: Tensor, d_h0: Tensor, inputs: Tensor, states: Tensor):
    """Sum over time and batch in one product each: the parameters are the same at every step.

    Parameters
    ----------
    d_h0 : (B, H) Tensor
        What a walk backwards left at its end.
    inputs, states : (T, B, G·H) Tensor
        What it left at each step: the gradients that go to W, b and x, and those that go to U, c
        and the state before.
    """
    rows, before = inputs.flatten(0, 1), h[:-1].flatten(0, 1)
    products = states.flatten(0, 1)
    return Gradients(
        x=inputs @ W,
        h0=d_h0,
        W=rows.T @ x.flatten(0, 1),
        U=products.T @ before,
        b=rows.sum(0),
        c=products.sum(0),
    )


def finite_difference(loss: Callable[[], Tensor], tensor: Tensor, step: float = 1e-6) -> Tensor:
    """Return ∂loss/∂tensor by central differences, (loss(+step) − loss(−step)) / 2 step.

    Changes ``tensor`` in place, element by element, and puts it back. Raises ValueError unless it
    is float64: in float32 the difference drowns in rounding.

    >>> x = torch.tensor([3.0, 5.0]).double()
    >>> [round(slope, 6) for slope in finite_difference(lambda: x[0] * x[1], x).tolist()]
    [5.0, 3.0]
    """
    if tensor.dtype != torch.float64:
        raise ValueError(f"finite differences expect float64, got {tensor.dtype}")
    gradient = torch.empty_like(tensor)
    with torch.no_grad():
        flat, out = tensor.view(-1), gradient.view(-1)
        for i in range(flat.numel()):
            value = flat[i].item()
            flat[i] = value + step
            above = loss().item()
            flat[i] = value - step
            out[i] = (above - loss().item()) / (2 * step)
            flat[i] = value
    return gradient


def walk_back(
    step: Callable, x: Tensor, h: Tensor, gates: GRUStep, W: Tensor, U: Tensor, *, output_gradient
) -> Gradients:
    """Do what :func:`gru_backward` does, with a reader's ``step`` (d_h, gates, h_before, U)."""
    d_inputs, d_states, d_h = [], [], torch.zeros_like(h[0])
    for t in reversed(range(len(x))):
        one = GRUStep(*(part[t] for part in gates))
        inputs, states, d_h = step(d_h + output_gradient[t], one, h[t], U)
        d_inputs.insert(0, inputs)
        d_states.insert(0, states)
    return collect(x, h, W, d_h, torch.stack(d_inputs), torch.stack(d_states))


def three_checks(forward: Callable, backward: Callable, module: nn.Module) -> None:
    """Print the largest difference of gradients by hand from those of three witnesses.

    The loss is a weighted sum of all states. ``forward(tensors)`` returns them from x, h0, W, U, b
    and c; ``backward(tensors, weight)`` returns the ``Gradients``; ``module`` is torch's
    RNN or GRU, in float64. The witnesses are autograd, finite differences and ``module``.
    """
    parameters = list(module.parameters())
    tensors = [torch.randn(6, 2, parameters[0].shape[1]), torch.randn(2, parameters[1].shape[1])]
    tensors = [t.double() for t in (*tensors, *map(torch.randn_like, parameters))]
    weight = torch.randn(6, *tensors[1].shape).double()
    hand = backward(tensors, weight)
    leaves = [t.clone().requires_grad_() for t in tensors]
    auto = torch.autograd.grad((forward(leaves) * weight).sum(), leaves)
    numeric = [finite_difference(lambda: (forward(tensors) * weight).sum(), t) for t in tensors]
    for parameter, value in zip(parameters, tensors[2:], strict=True):
        parameter.data.copy_(value)
    x, h0, *_ = [t.requires_grad_() for t in tensors]
    library = torch.autograd.grad((module(x, h0[None])[0] * weight).sum(), [x, h0, *parameters])
    print("     autograd  differences  torch.nn")
    for name, mine, *others in zip(hand._fields, hand, auto, numeric, library, strict=True):
        off = [f"{(mine - other).abs().max().item():.0e}" for other in others]
        print(f"δ{name:3} {off[0]:>8} {off[1]:>12} {off[2]:>9}")
