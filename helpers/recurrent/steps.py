"""One step of each recurrence, as its equations read. Shapes: x (B, I), h (B, H).

Parameters have the layout of ``torch.nn``: W (G·H, I) and b (G·H) act on the input, U (G·H, H) and
c (G·H) on the state, with G = 1 for the RNN and G = 3 for the GRU, whose blocks stand in the order
reset, update, candidate.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class GRUStep(NamedTuple):
    """What one GRU step computed, each (B, H)."""

    reset: Tensor  # r: how much of the state the candidate may read
    update: Tensor  # z: how much of the old state stays; 1 copies it
    memory: Tensor  # m = U_n h + c_n: what the candidate reads, before the reset gate
    candidate: Tensor  # n
    state: Tensor  # h_t


def rnn_step(x: Tensor, h: Tensor, W: Tensor, U: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """Return h_t = tanh(W x_t + b + U h_{t-1} + c) (Elman 1990), (B, H)."""
    return torch.tanh(x @ W.T + b + h @ U.T + c)


def gru_step(x: Tensor, h: Tensor, W: Tensor, U: Tensor, b: Tensor, c: Tensor) -> GRUStep:
    """Return one step of the GRU (Cho et al. 2014, reset applied after the product), (B, H) each.

    r = σ(W_r x + b_r + U_r h + c_r)
    z = σ(W_z x + b_z + U_z h + c_z)
    n = tanh(W_n x + b_n + r ∘ (U_n h + c_n))
    h_t = (1 − z) ∘ n + z ∘ h

    With all parameters 0 both gates are one half and the candidate is 0:

    >>> x, h, W, U, b = (torch.zeros(shape) for shape in ((1, 2), (1, 1), (3, 2), (3, 1), 3))
    >>> gru_step(x, h + 8, W, U, b, b).state.item()
    4.0
    """
    i_r, i_z, i_n = (x @ W.T + b).chunk(3, dim=-1)
    s_r, s_z, memory = (h @ U.T + c).chunk(3, dim=-1)
    reset = torch.sigmoid(i_r + s_r)
    update = torch.sigmoid(i_z + s_z)
    candidate = torch.tanh(i_n + reset * memory)
    return GRUStep(reset, update, memory, candidate, (1 - update) * candidate + update * h)


def join(first: tuple[Tensor, Tensor], then: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Return the pair (q, d) of one step h → q ∘ h + d that does what ``first`` and ``then`` do."""
    (q1, d1), (q2, d2) = first, then
    return q2 * q1, q2 * d1 + d2
