"""A curve and the small network that a source of this course fits to it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

WIDTHS = 80, 80, 80, 40  # of the four linear layers
END = 20.0  # x goes from 0 to here


def curve(x: np.ndarray) -> np.ndarray:
    """Compute √x · sin(3.14·x/5), the source's function, for x ≥ 0."""
    return np.sqrt(x) * np.sin(3.14 * x / 5)


def samples(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Draw N points of the curve, x uniform on [0, 20]: x and y, float32 (N, 1)."""
    x = np.random.default_rng([seed, 5]).uniform(0, END, (count, 1))
    return x.astype(np.float32), curve(x).astype(np.float32)


class FourLayers(nn.Module):
    """x → 80 → 80 → 80 → 40 → y with ReLU between: 16 401 parameters.

    The source names four linear layers of these widths, but not how x enters or y leaves. Here x is
    scaled to [−1, 1] and read by the first, and a fifth layer of 41 parameters adds the 40 up.
    """

    def __init__(self, seed: int = 0):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            layers: list[nn.Module] = []
            before = 1
            for width in WIDTHS:
                layers += [nn.Linear(before, width), nn.ReLU()]
                before = width
            self.layers = nn.Sequential(*layers, nn.Linear(before, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Guess the curve at x (B, 1), from 0 to 20."""
        return self.layers(x / (END / 2) - 1)
