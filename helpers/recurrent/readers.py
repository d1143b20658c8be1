"""What is trained for an ablation: a recurrent layer, read out at its end, and its variants."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from helpers.recurrent.layers import GRU

# A GRU starts as PyTorch's does, with z near 1/2; the half-life GRU with the task's half-life.
VARIANTS: dict[str, dict[str, Any]] = {
    "half-life GRU": {},
    "GRU": {"half_life": 1},
    "orthogonal RNN": {"reset": False, "update": False, "half_life": 1, "orthogonal": True},
    "RNN": {"reset": False, "update": False, "half_life": 1},
}


def half_life_bias(steps: float) -> float:
    """Return the bias b of an update gate σ with σ(b)^steps = 1/2: half is left after ``steps``.

    The idea of Tallec & Ollivier (2018). Raises ValueError unless ``steps`` is positive.

    >>> half_life_bias(1), round(half_life_bias(40), 2)
    (0.0, 4.05)
    """
    if not 0 < steps <= 1e15:  # beyond, what is kept of a step rounds to all of it
        raise ValueError(f"steps={steps!r}: expected a positive number of steps, at most 1e15")
    kept = 0.5 ** (1 / steps)
    return math.log(kept / (1 - kept))


class Reader(nn.Module):
    """Read a sequence with a GRU, and classify its last state.

    Before training, the state's half-life is ``half_life`` steps (1: PyTorch's start, z = 1/2).
    ``orthogonal`` starts the candidate with an orthogonal U, and all biases at 0.
    """

    def __init__(
        self,
        inputs: int,
        hidden: int,
        classes: int,
        half_life: float = 1,
        orthogonal: bool = False,
        **variant,
    ):
        super().__init__()
        self.layer = GRU(inputs, hidden, **variant)
        self.answer = nn.Linear(hidden, classes)
        kept = half_life_bias(half_life)
        with torch.no_grad():  # the second block is the update
            self.layer.bias_ih_l0[hidden : 2 * hidden] += kept
            if orthogonal:  # all biases 0, and the candidate's U keeps every length
                nn.init.orthogonal_(self.layer.weight_hh_l0[2 * hidden :])
                self.layer.bias_ih_l0.zero_()
                self.layer.bias_hh_l0.zero_()

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (B, C) from x (T, B, I)."""
        return self.answer(self.layer(x)[0][-1])


def stacked(reader: Reader, parameters: dict[str, Tensor], x: Tensor) -> Tensor:
    """Return what several readers answer, each to its own batch: logits (S, B, C).

    ``reader`` says of which kind they are, ``parameters`` holds those of all, stacked, and x is
    (S, T, B, I).
    """
    W, U, b, c = (
        parameters[f"layer.{name}_l0"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    )
    S, T, B, _ = x.shape
    gi = torch.baddbmm(b.unsqueeze(1), x.flatten(1, 2), W.mT)  # (S, T·B, 3H): for every step
    c, U_T = c.unsqueeze(1), U.mT
    h = x.new_zeros(S, B, reader.layer.hidden_size)
    for gi_t in gi.view(S, T, B, -1).unbind(1):
        h = reader.layer.mix(gi_t, torch.baddbmm(c, h, U_T), h)
    return torch.baddbmm(parameters["answer.bias"].unsqueeze(1), h, parameters["answer.weight"].mT)
