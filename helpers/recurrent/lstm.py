"""The LSTM as the GRU's rival: torch's own layer, whose step can be run for many seeds at once."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class LSTM(nn.LSTM):
    """``torch.nn.LSTM`` of one layer and direction (Hochreiter & Schmidhuber 1997; Gers 2000).

    i, f, o = σ(W_i x + ... + U_i h + ...), likewise f and o
    g = tanh(W_g x + ... + U_g h + ...)
    c_t = f ∘ c_{t-1} + i ∘ g
    h_t = o ∘ tanh(c_t)

    The blocks of each parameter stand in the order i, f, g, o. Where the GRU has one gate z, and
    1 − z for the new, the LSTM has two, f and i; and it shows a part o of what it keeps.
    """

    def mix(self, gi: Tensor, gh: Tensor, state: Tensor) -> Tensor:
        """Return the next state (..., 2H), h and c side by side, from both shares of the gates.

        gi and gh are (..., 4H): what the input, and what h, add to each block.
        """
        i, f, g, o = (gi + gh).chunk(4, -1)
        kept = torch.sigmoid(f) * state[..., self.hidden_size :]
        c = torch.addcmul(kept, torch.sigmoid(i), torch.tanh(g))
        return torch.cat([torch.sigmoid(o) * torch.tanh(c), c], -1)


def units_of_an_lstm(inputs: int, hidden: int, classes: int) -> int:
    """Return how many units give an LSTM the parameters of a GRU, each with its linear answer.

    Parameters
    ----------
    inputs, hidden, classes : int
        I, and H and C of the GRU.

    Returns
    -------
    int
        The number, at least 1, whose count of parameters is nearest to the GRU's.
    """

    def count(blocks: int, units: int) -> int:
        return blocks * units * (inputs + units + 2) + classes * (units + 1)

    wanted = count(3, hidden)
    return min(range(1, hidden + 1), key=lambda units: abs(count(4, units) - wanted))
