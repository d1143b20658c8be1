"""LeNet trained on digits by the computation graph alone, beside PyTorch: losses, time, accuracy.

Both begin with PyTorch's weights and see the same batches. Their steps are taken in turns, so that
whatever disturbs the machine meets both; the time of a training is the sum of its steps. In float32
rounding drives any two programs apart after some steps; how fast, a second PyTorch says, which is
given each batch's images in reverse order: the same gradient, added up in another order. One thread
each.

python -m bench autodiff_training
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from helpers import autodiff as ad
from helpers.autodiff import models
from helpers.records import Row

if TYPE_CHECKING:
    import torch

SUITE = "autodiff_training"
BATCH, RATE, EPOCHS = 50, 0.1, 5
CLOSE = 1e-5  # between losses


def rows(epochs: int = EPOCHS) -> list[Row]:
    """Return the comparison in both precisions, after so many epochs over 4 000 digits."""
    import torch
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(1)
    with threadpool_limits(1):
        return [row for dtype in ("float32", "float64") for row in _rows(dtype, epochs)]


def _rows(dtype: str, epochs: int) -> list[Row]:
    import torch

    from helpers.datasets import mnist
    from helpers.models.lenet import LeNet

    digits = mnist.load()
    images, tests = (a.astype(dtype) for a in (digits.train_images, digits.test_images))
    model = LeNet(seed=0).to(getattr(torch, dtype))
    again = LeNet(seed=0).to(getattr(torch, dtype))
    weights = [ad.state(name, p.detach().numpy()) for name, p in model.named_parameters()]
    step = models.training_step(models.lenet, weights, (BATCH, *images.shape[1:]), RATE)
    theirs, reverse = _torch_step(model), _torch_step(again)
    ways = (step, theirs, lambda images, labels: reverse(images[::-1].copy(), labels[::-1].copy()))
    order, seconds = np.random.default_rng(0), [0.0] * len(ways)
    losses: list[list[float]] = [[] for _ in ways]
    for _ in range(epochs):
        for chosen in order.permutation(len(images)).reshape(-1, BATCH):
            batch = images[chosen], digits.train_labels[chosen]
            for side, way in enumerate(ways):
                began = perf_counter()
                losses[side].append(way(*batch))
                seconds[side] += perf_counter() - began
    x = ad.variable("x", tests.shape, dtype)
    (ours,) = ad.function([x], [models.lenet(x, weights)])(tests)
    with torch.no_grad():
        other = model(torch.from_numpy(tests)).numpy()
    right = [float(np.mean(s.argmax(1) == digits.test_labels)) for s in (ours, other)]
    apart, control = (np.abs(np.subtract(side, losses[1])) for side in (losses[0], losses[2]))
    about = {"steps": len(apart), "batch": BATCH, "rate": RATE, "dtype": dtype, "threads": 1}
    found = {**about, "steps within 1e-5": _within(apart), "PyTorch's": _within(control)}
    label = f"LeNet trained on MNIST, {dtype}"
    turned = "PyTorch with itself, images of a batch reversed"
    return [
        Row(f"{label}: whole training", seconds[0], "s", "PyTorch", seconds[1], about),
        Row(f"{label}: losses apart", float(apart.max()), "1", turned, float(control.max()), found),
        Row(f"{label}: test accuracy", right[0], "1", "PyTorch", right[1], about),
    ]


def _torch_step(model: torch.nn.Module) -> Callable[[np.ndarray, np.ndarray], float]:
    """Return the same step of gradient descent by PyTorch: images, labels → loss."""
    import torch

    optimizer = torch.optim.SGD(model.parameters(), RATE)

    def step(images: np.ndarray, labels: np.ndarray) -> float:
        optimizer.zero_grad()
        scores = model(torch.from_numpy(images))
        loss = torch.nn.functional.cross_entropy(scores, torch.from_numpy(labels))
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def _within(apart: np.ndarray) -> int:
    """Count the steps before losses are further apart than allowed."""
    return int(np.argmax(apart > CLOSE)) if (apart > CLOSE).any() else len(apart)
