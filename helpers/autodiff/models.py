"""Networks of this package's operators, and a step that trains them: nothing else is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from helpers.autodiff import passes
from helpers.autodiff.convolution import conv2d, max_pool2d
from helpers.autodiff.elementwise import (
    add,
    multiply,
    relu,
    tanh,
)
from helpers.autodiff.gradient import gradients
from helpers.autodiff.graph import Variable, variable
from helpers.autodiff.matmul import matmul
from helpers.autodiff.memory import Allocator, Plan, plan
from helpers.autodiff.shaping import reshape, transpose
from helpers.autodiff.softmax import cross_entropy
from helpers.autodiff.state import State, add_update

FAST = (passes.simplify, passes.fold_constants, passes.share_subexpressions, passes.fuse)


def lenet(images: Variable, weights: Sequence[Variable]) -> Variable:
    """Sort images of digits (B, 1, 28, 28): scores (B, 10), before the softmax."""
    w0, b0, w1, b1, w2, b2, w3, b3, w4, b4 = weights
    x = max_pool2d(relu(conv2d(images, w0, b0, padding=2)), 2)  # (B, 6, 14, 14)
    x = max_pool2d(relu(conv2d(x, w1, b1)), 2)  # (B, 16, 5, 5)
    x = reshape(x, (x.shape[0], 400))
    x = relu(add(matmul(x, transpose(w2)), b2))  # (B, 120)
    x = relu(add(matmul(x, transpose(w3)), b3))  # (B, 84)
    return add(matmul(x, transpose(w4)), b4)


def training_step(
    model: Callable[[Variable, Sequence[Variable]], Variable],
    weights: Sequence[State],
    shape: Sequence[int],
    rate: float,
) -> Callable[[np.ndarray, np.ndarray], float]:
    """Return ``step(images, labels)``: gradient descent in planned memory; the loss before."""
    images = variable("images", shape, weights[0].dtype)
    labels = variable("labels", (shape[0],), "int64")
    loss = cross_entropy(model(images, weights), labels)
    slopes = gradients(loss, weights)
    outputs: Sequence[Variable] = [
        loss,
        *(add_update(w, multiply(g, -rate)) for w, g in zip(weights, slopes, strict=True)),
    ]
    for each in (*FAST, passes.order_updates):
        outputs = each(outputs, [images, labels])
    return Step(plan([images, labels], outputs), Allocator(keep=True))


class Step:
    """A plan that runs in the same memory again and again."""

    def __init__(self, plan: Plan, memory: Allocator):
        self.plan, self.memory = plan, memory

    def __call__(self, *arrays: np.ndarray) -> float:
        """Run it; return the loss."""
        return float(self.plan(*arrays, allocator=self.memory)[0])


def gelu(x: Variable) -> Variable:
    """Gate x by a smooth step (Hendrycks and Gimpel 2016, the form with tanh)."""
    inner = multiply(add(x, multiply(0.044715, multiply(x, multiply(x, x)))), np.sqrt(2 / np.pi))
    return multiply(multiply(0.5, x), add(1.0, tanh(inner)))
