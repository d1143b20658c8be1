"""RNN and GRU over whole sequences, with the parameters of ``torch.nn.RNN`` and ``torch.nn.GRU``.

    layer = GRU(input_size=8, hidden_size=16)
    layer.load_state_dict(torch.nn.GRU(8, 16).state_dict())
    output, final = layer(x)                               # (T, B, 16), (1, B, 16)

The input's share of every gate is one product for all steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from helpers.recurrent.gradients import gru_forward
from helpers.recurrent.steps import GRUStep

# A cell of one's own: the input's shares of reset, update and candidate, then the state's, then the
# state before; all (..., H), as is the state that it returns.
Cell = Callable[[tuple[Tensor, ...], tuple[Tensor, ...], Tensor], Tensor]


class _Recurrent(nn.Module):
    """Parameters and the loop over time, common to both layers; ``step`` is the recurrence."""

    blocks: int  # G: gates and candidate, stacked in every parameter

    def __init__(self, input_size: int, hidden_size: int):
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        rows, bound = self.blocks * hidden_size, 1 / math.sqrt(hidden_size)
        for name, shape in (
            ("weight_ih_l0", (rows, input_size)),
            ("weight_hh_l0", (rows, hidden_size)),
            ("bias_ih_l0", (rows,)),
            ("bias_hh_l0", (rows,)),
        ):  # from U(−1/√H, 1/√H), as torch.nn draws them
            self.register_parameter(name, nn.Parameter(torch.empty(shape).uniform_(-bound, bound)))

    def weights(self) -> tuple[Tensor, ...]:
        """Return W, U, b and c."""
        return tuple(self.parameters())

    def forward(self, x: Tensor, h0: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Run over x (T, B, I) from h0 (1, B, H), zeros unless given.

        Returns all states (T, B, H) and the last (1, B, H). Raises ValueError for a shape that is
        wrong.
        """
        W, U, b, c = self.weights()
        if x.dim() != 3 or x.shape[-1] != self.input_size or 0 in x.shape[:-1]:
            raise ValueError(
                f"x has shape {tuple(x.shape)}: expected (T, B, {self.input_size}) with T and B "
                "at least 1"
            )
        T, B, _ = x.shape
        h, states = x.new_zeros(B, self.hidden_size) if h0 is None else h0[0], []
        for gi in torch.addmm(b, x.flatten(0, 1), W.T).view(T, B, -1).unbind(0):
            h = self.step(gi, h, U.T, c)
            states.append(h)
        return torch.stack(states), h.unsqueeze(0)

    def step(self, gi: Tensor, h: Tensor, U_T: Tensor, c: Tensor) -> Tensor:
        """Return the next state (B, H) from the input's share gi (B, G·H) and the state (B, H)."""
        raise NotImplementedError


class RNN(_Recurrent):
    """h_t = tanh(W x_t + b + U h_{t-1} + c)."""

    blocks = 1

    def step(self, gi: Tensor, h: Tensor, U_T: Tensor, c: Tensor) -> Tensor:
        """Return the next state (B, H)."""
        return torch.tanh(gi + torch.addmm(c, h, U_T))


class GRU(_Recurrent):
    """The GRU of ``steps.gru_step``, and it with parts taken away or exchanged.

    ``reset=False`` holds r at 1, ``update=False`` holds z at 0 (their parameters then get no
    gradient). ``cell``, a ``Cell``, takes the place of the whole rule: ``cell((i_r, i_z, i_n),
    (s_r, s_z, m), h)``. It has no parameters of its own: nothing would train them. ValueError if it
    has.
    """

    blocks = 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        reset: bool = True,
        update: bool = True,
        cell: Cell | None = None,
    ):
        super().__init__(input_size, hidden_size)
        owner = getattr(cell, "__self__", cell)
        if isinstance(owner, nn.Module) and any(True for _ in owner.parameters()):
            raise ValueError(f"cell: expected a function without parameters of its own, got {cell}")
        self.cell = cell
        self.has_reset, self.has_update = reset, update

    def step(self, gi: Tensor, h: Tensor, U_T: Tensor, c: Tensor) -> Tensor:
        """Return the next state (B, H); both gates share one sum and one squashing."""
        return self.mix(gi, torch.addmm(c, h, U_T), h)

    def mix(self, gi: Tensor, gh: Tensor, h: Tensor) -> Tensor:
        """Return the next state (..., H) from both shares of the gates (..., 3H) and the state."""
        H = self.hidden_size
        if self.cell is not None:
            state = self.cell(gi.chunk(3, -1), gh.chunk(3, -1), h)
            if (got := getattr(state, "shape", state)) != h.shape:
                raise ValueError(f"the cell returned {got}: expected a state of shape {h.shape}")
            return state
        r, z = torch.sigmoid(gi[..., : 2 * H] + gh[..., : 2 * H]).chunk(2, -1)
        memory = r * gh[..., 2 * H :] if self.has_reset else gh[..., 2 * H :]
        n = torch.tanh(gi[..., 2 * H :] + memory)
        return torch.lerp(n, h, z) if self.has_update else n  # n + z (h − n)

    def trace(self, x: Tensor) -> GRUStep:
        """Return every gate of every step, (T, B, H) each, to look at.

        x is (T, B, I). Raises ValueError for a GRU with parts exchanged, whose gates differ.
        """
        if not (self.has_reset and self.has_update and self.cell is None):
            raise ValueError("trace expects the full GRU: reset, update and no cell of one's own")
        return gru_forward(x, x.new_zeros(x.shape[1], self.hidden_size), *self.weights())[1]
