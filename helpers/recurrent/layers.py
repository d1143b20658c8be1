"""RNN and GRU over whole sequences, interchangeable with ``torch.nn.RNN`` and ``torch.nn.GRU``.

    layer = GRU(input_size=8, hidden_size=16, bidirectional=True)
    layer.load_state_dict(torch.nn.GRU(8, 16, bidirectional=True).state_dict())
    output, final = layer(x)                               # (T, B, 32), (2, B, 16)

The loop over time is written once, over a list of batch sizes: B at every step for a tensor,
falling for a packed sequence. The input's share of every gate is one product for all steps, split
once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from helpers.recurrent.steps import GRUStep, gru_step

Choice = TypeVar("Choice")
# A cell of one's own: the input's shares of reset, update and candidate, then the state's, then the
# state before; all (..., H), as is the state that it returns.
Cell = Callable[[tuple[Tensor, ...], tuple[Tensor, ...], Tensor], Tensor]


def choose(name: str, key: str, choices: Mapping[str, Choice]) -> Choice:
    """Return ``choices[key]``; ``name`` is the argument that ``key`` came in.

    Raises ValueError, with what was passed and what may be, for any other ``key``.
    """
    if key not in choices:
        raise ValueError(f"{name}={key!r}: expected one of {', '.join(choices)}")
    return choices[key]


class _Recurrent(nn.Module):
    """Parameters, shapes and directions, common to both layers; ``step`` is the recurrence."""

    blocks: int  # G: gates and candidate, stacked in every parameter

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        bidirectional: bool = False,
    ):
        super().__init__()
        for name, size in (
            ("input_size", input_size),
            ("hidden_size", hidden_size),
            ("num_layers", num_layers),
        ):
            if not isinstance(size, int) or size < 1:
                raise ValueError(f"{name}={size!r}: expected a whole number, at least 1")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.bidirectional = bias, batch_first, bidirectional
        self.directions = 2 if bidirectional else 1
        rows = self.blocks * hidden_size
        for layer in range(num_layers):
            columns = input_size if layer == 0 else hidden_size * self.directions
            for suffix in self._suffixes(layer):
                self._parameter(f"weight_ih_{suffix}", rows, columns)
                self._parameter(f"weight_hh_{suffix}", rows, hidden_size)
                if bias:
                    self._parameter(f"bias_ih_{suffix}", rows)
                    self._parameter(f"bias_hh_{suffix}", rows)
        self.reset_parameters()

    def _parameter(self, name: str, *shape: int) -> None:
        self.register_parameter(name, nn.Parameter(torch.empty(*shape)))

    def _suffixes(self, layer: int) -> list[str]:
        return [f"l{layer}", f"l{layer}_reverse"][: self.directions]

    def reset_parameters(self) -> None:
        """Draw every parameter from U(−1/√H, 1/√H), as torch.nn does."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def weights(self, suffix: str = "l0") -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return W, U, b, c of one layer and direction; zeros stand for absent biases."""
        W, U = getattr(self, f"weight_ih_{suffix}"), getattr(self, f"weight_hh_{suffix}")
        if not self.bias:
            return W, U, W.new_zeros(len(W)), W.new_zeros(len(W))
        return W, U, getattr(self, f"bias_ih_{suffix}"), getattr(self, f"bias_hh_{suffix}")

    def forward(self, x: Tensor | PackedSequence, h0: Tensor | None = None):
        """Run over x (T, B, I), (B, T, I) if batch_first, (T, I), or packed.

        Returns the output of the last layer, (T, B, D·H) or as x is laid out, and the final states
        (L·D, B, H), with D directions and L layers. Raises ValueError for a shape that is wrong.
        """
        own = next(self.parameters()).dtype
        given = (x.data if isinstance(x, PackedSequence) else x).dtype
        if given != own:
            raise TypeError(f"x has dtype {given}: expected {own}, the weights'")
        if isinstance(x, PackedSequence):
            sizes = x.batch_sizes.tolist()
            state = self._initial(h0, sizes[0], x.data)
            if x.sorted_indices is not None:
                state = state[:, x.sorted_indices]
            data, final = self._layers(x.data, sizes, state)
            if x.unsorted_indices is not None:
                final = final[:, x.unsorted_indices]
            return x._replace(data=data), final
        if x.dim() not in (2, 3) or x.shape[-1] != self.input_size or 0 in x.shape[:-1]:
            raise ValueError(
                f"x has shape {tuple(x.shape)}: expected (T, B, {self.input_size}) or "
                f"(T, {self.input_size}) with T and B at least 1"
            )
        single = x.dim() == 2
        flip = self.batch_first and not single
        sequence = x.unsqueeze(1) if single else x.transpose(0, 1) if flip else x  # (T, B, I)
        T, B, _ = sequence.shape
        state = self._initial(h0.unsqueeze(1) if single and h0 is not None else h0, B, x)
        data, final = self._layers(sequence.reshape(T * B, -1), [B] * T, state)
        output = data.view(T, B, -1)
        if single:
            return output.squeeze(1), final.squeeze(1)
        return (output.transpose(0, 1) if flip else output), final

    def _initial(self, h0: Tensor | None, batch: int, like: Tensor) -> Tensor:
        shape = (self.num_layers * self.directions, batch, self.hidden_size)
        if h0 is None:
            return like.new_zeros(shape)
        if tuple(h0.shape) != shape:
            raise ValueError(f"h0 has shape {tuple(h0.shape)}: expected {shape}")
        return h0

    def _layers(self, data: Tensor, sizes: list[int], h0: Tensor) -> tuple[Tensor, Tensor]:
        """Run all layers and directions over rows (ΣB_t, I), time-major."""
        finals = []
        for layer in range(self.num_layers):
            outputs = []
            for direction, suffix in enumerate(self._suffixes(layer)):
                W, U, b, c = self.weights(suffix)
                inputs = torch.addmm(b, data, W.T).split(sizes)  # one product for every step
                start = h0[layer * self.directions + direction]
                states, final = self._over_time(inputs, U.T, c, start, backwards=direction == 1)
                outputs.append(torch.cat(states))
                finals.append(final)
            data = torch.cat(outputs, dim=1) if self.bidirectional else outputs[0]
        return data, torch.stack(finals)

    def _over_time(self, inputs, U_T: Tensor, c: Tensor, h0: Tensor, backwards: bool):
        """Return the states in order of time and each sequence's last one (B, H)."""
        if backwards:
            states, h = [], h0[:0]
            for gi in reversed(inputs):
                if len(gi) > len(h):  # these sequences end here: in reverse, they begin
                    h = torch.cat([h, h0[len(h) : len(gi)]])
                h = self.step(gi, h, U_T, c)
                states.append(h)
            return states[::-1], h
        states, ended, h = [], [], h0
        for gi in inputs:
            if len(gi) < len(h):  # packed sequences stand longest first: the last ones end
                ended.append(h[len(gi) :])
                h = h[: len(gi)]
            h = self.step(gi, h, U_T, c)
            states.append(h)
        return states, torch.cat([h, *reversed(ended)]) if ended else h

    def step(self, gi: Tensor, h: Tensor, U_T: Tensor, c: Tensor) -> Tensor:
        """Return the next state (B, H) from the input's share gi (B, G·H) and the state (B, H)."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        """Return the sizes, as torch.nn's layers print them."""
        return f"{self.input_size}, {self.hidden_size}, bidirectional={self.bidirectional}"


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
        *args,
        reset: bool = True,
        update: bool = True,
        cell: Cell | None = None,
        **kwargs,
    ):
        super().__init__(*args, **kwargs)
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

    def trace(self, x: Tensor, h0: Tensor | None = None) -> GRUStep:
        """Return every gate of every step of the first layer, (T, B, H) each, to look at.

        x is (T, B, I). Raises ValueError for a GRU with parts exchanged, whose gates differ.
        """
        if not (self.has_reset and self.has_update and self.cell is None):
            raise ValueError("trace expects the full GRU: reset, update and no cell of one's own")
        if x.dim() != 3:
            raise ValueError(f"trace expects x (T, B, I); got shape {tuple(x.shape)}")
        h = x.new_zeros(x.shape[1], self.hidden_size) if h0 is None else h0[0]
        steps = []
        for x_t in x.unbind(0):
            steps.append(gru_step(x_t, h, *self.weights()))
            h = steps[-1].state
        return GRUStep(*(torch.stack(part) for part in zip(*steps, strict=True)))
