"""Networks for 28 × 28 digits: LeNet-5 and a wide perceptron.

LeNet-5 is that of LeCun et al. (1998), figure 2, with ReLU and maximum pooling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from helpers.datasets.mnist import Digits


class LeNet(nn.Module):
    """61 706 parameters in ten tensors."""

    def __init__(self, seed: int = 0):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.first = nn.Conv2d(1, 6, 5, padding=2)
            self.second = nn.Conv2d(6, 16, 5)
            self.third = nn.Linear(16 * 5 * 5, 120)
            self.fourth = nn.Linear(120, 84)
            self.fifth = nn.Linear(84, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores (B, 10), before the softmax, of grey images (B, 1, 28, 28)."""
        x = functional.max_pool2d(functional.relu(self.first(x)), 2)  # (B, 6, 14, 14)
        x = functional.max_pool2d(functional.relu(self.second(x)), 2)  # (B, 16, 5, 5)
        x = functional.relu(self.third(x.flatten(1)))  # (B, 120)
        return self.fifth(functional.relu(self.fourth(x)))  # (B, 10)


def perceptron(seed: int = 0, hidden: int = 1024) -> nn.Module:
    """Make a perceptron with one hidden layer: much to send for little to compute.

    It uses each of its 814 090 parameters once for a sample, where LeNet's convolutions use theirs
    100 or 784 times.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Flatten(), nn.Linear(28 * 28, hidden), nn.ReLU(), nn.Linear(hidden, 10)
        )


def accuracy(model: nn.Module, images: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of digits (n, 1, 28, 28) whose highest score stands at their label (n,)."""
    with torch.no_grad():
        guesses = model(torch.from_numpy(images)).argmax(1)
    return float((guesses == torch.from_numpy(labels)).float().mean())


def reaches(model: nn.Module, images: np.ndarray, labels: np.ndarray, target: float) -> bool:
    """Tell whether :func:`accuracy` is ``target`` or more; end where too many are wrong."""
    wrong = (1 - target) * len(labels) + 0.01  # for rounding
    for begin in range(0, len(labels), 100):
        some = slice(begin, begin + 100)
        wrong -= len(labels[some]) * (1 - accuracy(model, images[some], labels[some]))
        if wrong < 0:
            return False
    return True


def accuracy_of(weights: np.ndarray, digits: Digits) -> float:
    """Return the accuracy, 0 to 1, on the test images of LeNet with given weights (P,).

    P = 61 706 parameters, in the model's order; ValueError for another number.
    """
    model = LeNet()
    wanted = sum(p.numel() for p in model.parameters())
    if weights.shape != (wanted,):
        raise ValueError(f"expected {wanted} weights; got an array {weights.shape}")
    nn.utils.vector_to_parameters(torch.tensor(weights), model.parameters())
    return accuracy(model, digits.test_images, digits.test_labels)
