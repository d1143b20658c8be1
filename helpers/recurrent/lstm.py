"""The LSTM as the GRU's rival: torch's own layer, whose step can be run for many seeds at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

# A step of one's own: the input's shares of i, f, g, o, then the state's, then c; all (..., H), as
# are h and c after it, which it returns.
Step = Callable[[tuple[Tensor, ...], tuple[Tensor, ...], Tensor], tuple[Tensor, Tensor]]


class LSTM(nn.LSTM):
    """``torch.nn.LSTM`` of one layer and direction (Hochreiter & Schmidhuber 1997; Gers 2000).

    i, f, o = σ(W_i x + ... + U_i h + ...), likewise f and o
    g = tanh(W_g x + ... + U_g h + ...)
    c_t = f ∘ c_{t-1} + i ∘ g
    h_t = o ∘ tanh(c_t)

    The blocks of each parameter stand in the order i, f, g, o. Where the GRU has one gate z, and
    1 − z for the new, the LSTM has two, f and i; and it shows a part o of what it keeps.

    ``step``, a ``Step``, takes the place of these equations in ``mix``; ``forward`` stays torch's.
    """

    def __init__(self, inputs: int, hidden: int, step: Step | None = None):
        super().__init__(inputs, hidden)
        self.step = step

    def mix(self, gi: Tensor, gh: Tensor, state: Tensor) -> Tensor:
        """Return the next state (..., 2H), h and c side by side, from both shares of the gates.

        gi and gh are (..., 4H): what the input, and what h, add to each block.
        """
        if self.step is not None:
            return self._stepped(gi, gh, state[..., self.hidden_size :])
        i, f, g, o = (gi + gh).chunk(4, -1)
        kept = torch.sigmoid(f) * state[..., self.hidden_size :]
        c = torch.addcmul(kept, torch.sigmoid(i), torch.tanh(g))
        return torch.cat([torch.sigmoid(o) * torch.tanh(c), c], -1)

    def _stepped(self, gi: Tensor, gh: Tensor, c: Tensor) -> Tensor:
        """Return h and c side by side as ``step`` makes them; ValueError for other shapes."""
        after = tuple(self.step(gi.chunk(4, -1), gh.chunk(4, -1), c))
        got = [getattr(part, "shape", part) for part in after]
        if got != [c.shape, c.shape]:
            raise ValueError(f"the step returned {got}: expected h and c, each of shape {c.shape}")
        return torch.cat(after, -1)


def units_of_an_lstm(inputs: int, hidden: int, classes: int) -> int:
    """Return how many units give an LSTM the parameters of a GRU, with its linear answer."""

    def count(blocks: int, units: int) -> int:
        return blocks * units * (inputs + units + 2) + classes * (units + 1)

    wanted = count(3, hidden)
    return min(range(1, hidden + 1), key=lambda units: abs(count(4, units) - wanted))
