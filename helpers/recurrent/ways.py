"""Ways of running the same GRU, so that what a way costs can be measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from helpers.recurrent.layers import GRU

TOLERANCE = 1e-5


def ways(steps: int, batch: int, width: int, seed: int = 0) -> dict[str, Callable[[], Tensor]]:
    """Return forward passes of one GRU on one input, equal but for the way that they take.

    Each returns the states (T, B, H), from which one can go backward.
    """
    torch.manual_seed(seed)
    reference, ours = torch.nn.GRU(width, width), GRU(width, width)
    ours.load_state_dict(reference.state_dict())
    x = torch.randn(steps, batch, width, requires_grad=True)
    W, U, b, c = ours.weights()

    def scan(cut: Callable[[Tensor], Iterable[Tensor]]) -> Tensor:
        h, states = torch.zeros(batch, width), []
        for gi_t in cut(x @ W.T + b):
            h = ours.step(gi_t, h, U.T, c)
            states.append(h)
        return torch.stack(states)

    def separate() -> Tensor:
        parts = zip(*(p.chunk(3) for p in (W, U, b, c)), strict=True)
        (W_r, U_r, b_r, c_r), (W_z, U_z, b_z, c_z), (W_n, U_n, b_n, c_n) = parts
        h, states = torch.zeros(batch, width), []
        for x_t in x.unbind(0):
            r = torch.sigmoid(x_t @ W_r.T + b_r + h @ U_r.T + c_r)
            z = torch.sigmoid(x_t @ W_z.T + b_z + h @ U_z.T + c_z)
            n = torch.tanh(x_t @ W_n.T + b_n + r * (h @ U_n.T + c_n))
            h = (1 - z) * n + z * h
            states.append(h)
        return torch.stack(states)

    forwards: dict[str, Callable[[], Tensor]] = {
        "nn.GRU": lambda: reference(x)[0],
        "our GRU": lambda: ours(x)[0],
        "gi.unbind(0)": lambda: scan(lambda gi: gi.unbind(0)),
        "gi[t]": lambda: scan(lambda gi: (gi[t] for t in range(steps))),
        "six linear maps": separate,
    }
    expected = forwards["nn.GRU"]()
    for name, forward in forwards.items():
        if (forward() - expected).abs().max() > TOLERANCE:
            raise AssertionError(f"{name} does not compute what nn.GRU computes")
    return forwards
