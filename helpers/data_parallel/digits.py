"""The digits and a small perceptron: its loss, its accuracy, and the noise of its gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from torch import nn

HIDDEN = 32  # units of the hidden layer: 25 450 parameters


def small(seed: int = 0) -> nn.Module:
    """Make the small perceptron, 784 → 32 → 10 with 25 450 parameters."""
    from helpers.models.perceptron import perceptron

    return perceptron(seed, HIDDEN)


def judge(weights: np.ndarray) -> tuple[float, float]:
    """Return the small perceptron's cross-entropy and accuracy on the test digits."""
    import torch
    from torch.nn.functional import cross_entropy

    from helpers.data_parallel.runs import digits as load

    model, data = small(), load()
    torch.nn.utils.vector_to_parameters(torch.tensor(weights), model.parameters())
    with torch.no_grad():
        scores = model(torch.from_numpy(data.test_images))
    labels = torch.from_numpy(data.test_labels)
    loss = cross_entropy(scores, labels).item()
    return loss, (scores.argmax(1) == labels).float().mean().item()


def noise(weights: np.ndarray, batch: int = 16, draws: int = 100, seed: int = 0) -> float:
    """Measure σ²: the variance of a mini-batch's gradient, summed over the parameters.

    ``weights`` (P,) say where; the ``draws`` are mini-batches of B digits, from all training
    digits.
    """
    import torch
    from torch.nn.functional import cross_entropy

    from helpers.data_parallel.flat import Flat
    from helpers.data_parallel.runs import digits as load

    model, data = small(), load()
    torch.nn.utils.vector_to_parameters(torch.tensor(weights), model.parameters())
    flat, rng, found = Flat(model), np.random.default_rng(seed), []
    for _ in range(draws):
        where = rng.choice(len(data.train_labels), batch, replace=False)
        flat.gradients.zero_()
        x, y = (
            torch.from_numpy(data.train_images[where]),
            torch.from_numpy(data.train_labels[where]),
        )
        cross_entropy(model(x), y).backward()
        found.append(flat.gradients.numpy().copy())
    return float(np.var(found, axis=0, ddof=1).sum())
