"""Optimizers over flat buffers: anything with a ``step()`` moves a replica."""

from __future__ import annotations

import numpy as np

from helpers.data_parallel.flat import Flat


class FlatSGD:
    """All that a parameter server needs: the values and the momentum, two flat arrays.

    The same arithmetic as ``torch.optim.SGD``: v ← μ·v + g, θ ← θ − λ·v. No model, no graph.
    """

    def __init__(self, flat: Flat, rate: float, momentum: float):
        self.values, self.gradient = flat.values.numpy(), flat.gradients.numpy()
        self.rate, self.momentum = rate, momentum
        self._velocity = np.zeros_like(self.values)

    def step(self) -> None:
        """Move the values against the gradient."""
        self._velocity *= self.momentum
        self._velocity += self.gradient
        self.values -= self.rate * self._velocity
