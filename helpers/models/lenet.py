"""LeNet-5 for 28 × 28 digits (LeCun et al., 1998, figure 2, with ReLU and maximum pooling)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional


class LeNet(nn.Module):
    """61 706 parameters in ten tensors; ``seed`` fixes the initial weights."""

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
        """Images (B, 1, 28, 28) → scores (B, 10), before the softmax."""
        x = functional.max_pool2d(functional.relu(self.first(x)), 2)  # (B, 6, 14, 14)
        x = functional.max_pool2d(functional.relu(self.second(x)), 2)  # (B, 16, 5, 5)
        x = functional.relu(self.third(x.flatten(1)))  # (B, 120)
        return self.fifth(functional.relu(self.fourth(x)))  # (B, 10)


def perceptron(seed: int = 0, hidden: int = 1024) -> nn.Module:
    """A wide network without convolutions: images (B, 1, 28, 28) → scores (B, 10).

    It uses each of its 814 090 parameters once for a sample, where LeNet's convolutions use theirs
    100 or 784 times: much to send for little to compute.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Flatten(), nn.Linear(28 * 28, hidden), nn.ReLU(), nn.Linear(hidden, 10)
        )


class Flat:
    """All parameters of a model in one buffer, all gradients in another; the model sees both.

    ``values`` and ``gradients`` (P,) share memory with the model's tensors, so one message carries
    either, and one ``optimizer.step`` on ``[flat.parameter]`` moves the whole model.
    """

    def __init__(self, model: nn.Module):
        parameters = list(model.parameters())
        self.sizes = [p.numel() for p in parameters]
        self.values = torch.cat([p.detach().flatten() for p in parameters])
        self.gradients = torch.zeros_like(self.values)
        for p, value, gradient in zip(
            parameters,
            self.values.split(self.sizes),
            self.gradients.split(self.sizes),
            strict=True,
        ):
            p.data = value.view_as(p)
            p.grad = gradient.view_as(p)
        self.parameter = nn.Parameter(self.values)
        self.parameter.grad = self.gradients

    def layers(self, flat: Tensor) -> list[np.ndarray]:
        """``flat`` (P,) cut into one array for each of the model's tensors, sharing memory."""
        return [part.numpy() for part in flat.split(self.sizes)]


def backward(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Add the gradient of the mean cross-entropy to the model's gradients; return the loss."""
    loss = functional.cross_entropy(model(images), labels)
    loss.backward()
    return loss.item()


def accuracy(model: nn.Module, images: np.ndarray, labels: np.ndarray) -> float:
    """The share of ``images`` (n, 1, 28, 28) whose highest score stands at their label."""
    with torch.no_grad():
        guesses = model(torch.from_numpy(images)).argmax(1)
    return float((guesses == torch.from_numpy(labels)).float().mean())


def accuracy_of(weights: np.ndarray, digits) -> float:
    """The accuracy of a LeNet with these flat ``weights`` (61 706,) on ``digits``' test images.

    Raises ValueError for another number of weights.
    """
    model = LeNet()
    flat = Flat(model)
    if weights.shape != tuple(flat.values.shape):
        raise ValueError(f"expected {flat.values.numel()} weights; got an array {weights.shape}")
    flat.values.copy_(torch.from_numpy(weights))
    return accuracy(model, digits.test_images, digits.test_labels)
