"""Networks of this package's operators, and a step that trains them: nothing else is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from helpers.autodiff import passes
from helpers.autodiff.broadcasting import broadcast
from helpers.autodiff.convolution import conv2d, max_pool2d
from helpers.autodiff.elementwise import (
    add,
    divide,
    multiply,
    relu,
    sigmoid,
    sqrt,
    subtract,
    tanh,
    where,
)
from helpers.autodiff.gradient import gradients
from helpers.autodiff.graph import Variable, variable
from helpers.autodiff.loop import scan
from helpers.autodiff.matmul import matmul, swapped
from helpers.autodiff.memory import Allocator, Plan, plan
from helpers.autodiff.reductions import mean
from helpers.autodiff.shaping import reshape, transpose
from helpers.autodiff.softmax import cross_entropy, softmax
from helpers.autodiff.state import State, add_update

LENET = (  # LeCun et al. 1998, figure 2: filters or matrix, and bias, of each layer
    ((6, 1, 5, 5), (6,)),
    ((16, 6, 5, 5), (16,)),
    ((120, 400), (120,)),
    ((84, 120), (84,)),
    ((10, 84), (10,)),
)

FAST = (passes.simplify, passes.fold_constants, passes.share_subexpressions, passes.fuse)


def lenet_weights(seed: int = 0) -> list[State]:
    """Draw weights for LeNet, uniform in ±1/√(numbers that an output adds up).

    Parameters
    ----------
    seed : int
        Of the random numbers.

    Returns
    -------
    list of State
        float32; filters or matrix, then bias, for each of five layers.
    """
    random = np.random.default_rng(seed)
    found = []
    for i, (shape, bias) in enumerate(LENET):
        limit = 1 / np.sqrt(np.prod(shape[1:]))
        for name, size in ((f"w{i}", shape), (f"b{i}", bias)):
            found.append(State(name, random.uniform(-limit, limit, size).astype(np.float32)))
    return found


def lenet(images: Variable, weights: Sequence[Variable]) -> Variable:
    """Sort images of digits.

    Parameters
    ----------
    images : Variable (B, 1, 28, 28)
        Grey values.
    weights : sequence of Variable
        Ten, as :func:`lenet_weights` makes them.

    Returns
    -------
    Variable (B, 10)
        Scores, before the softmax.
    """
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
    """Make one step of gradient descent into a function, in planned memory.

    Parameters
    ----------
    model : callable
        ``model(images, weights)`` → scores.
    weights : sequence of State
        Changed by each step.
    shape : sequence of int
        Of a batch of images.
    rate : float
        Of learning.

    Returns
    -------
    callable
        ``step(images, labels)`` → the loss before the step. Its ``plan`` is a :class:`Plan`.
    """
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
    """A plan that runs in the same memory again and again.

    Parameters
    ----------
    plan : Plan
        Whose first output is the loss.
    memory : Allocator
        That keeps what comes back.
    """

    def __init__(self, plan: Plan, memory: Allocator):
        self.plan, self.memory = plan, memory

    def __call__(self, *arrays: np.ndarray) -> float:
        """Run it; return the loss."""
        return float(self.plan(*arrays, allocator=self.memory)[0])


def gru(xs: Variable, h: Variable, weights: Sequence[Variable]) -> Variable:
    """Run a gated recurrent unit over a sequence (Cho et al. 2014, with PyTorch's reset gate).

    Parameters
    ----------
    xs : Variable (T, B, I)
        The sequence.
    h : Variable (B, H)
        The state before it.
    weights : sequence of Variable
        W (3H, I), U (3H, H), b (3H,), c (3H,): the rows of the reset gate, the update gate, the
        new state.

    Returns
    -------
    Variable (T, B, H)
        The state after each step.
    """
    W, U, b, c = weights
    H = h.shape[-1]
    gates = add(matmul(xs, transpose(W)), b)  # (T, B, 3H), for all steps at once

    def step(h: Variable, x: Variable) -> tuple[list[Variable], list[Variable]]:
        u = add(matmul(h, transpose(U)), c)  # (B, 3H)
        r = sigmoid(add(x[:, :H], u[:, :H]))  # type: ignore[index]
        z = sigmoid(add(x[:, H : 2 * H], u[:, H : 2 * H]))  # type: ignore[index]
        n = tanh(add(x[:, 2 * H :], multiply(r, u[:, 2 * H :])))  # type: ignore[index]
        new = add(n, multiply(z, subtract(h, n)))
        return [new], [new]

    return scan(step, [h], [gates])[1][0]


def layer_norm(x: Variable, gain: Variable, bias: Variable, epsilon: float = 1e-5) -> Variable:
    """Give each row mean 0 and variance 1, then a gain and a bias (Ba et al. 2016).

    Parameters
    ----------
    x : Variable (..., D)
        Floating.
    gain, bias : Variable (D,)
        Learnt.
    epsilon : float
        Added to the variance.

    Returns
    -------
    Variable (..., D)
        The rows.
    """
    centred = subtract(x, mean(x, -1, keepdims=True))
    variance = mean(multiply(centred, centred), -1, keepdims=True)
    return add(multiply(divide(centred, sqrt(add(variance, epsilon))), gain), bias)


def gelu(x: Variable) -> Variable:
    """Gate x by a smooth step (Hendrycks and Gimpel 2016, the form with tanh).

    Parameters
    ----------
    x : Variable
        Floating.

    Returns
    -------
    Variable
        x · Φ(x), nearly.
    """
    inner = multiply(add(x, multiply(0.044715, multiply(x, multiply(x, x)))), np.sqrt(2 / np.pi))
    return multiply(multiply(0.5, x), add(1.0, tanh(inner)))


def attention(q: Variable, k: Variable, v: Variable, mask: Variable | None = None) -> Variable:
    """Average values, weighted by how well their keys fit the query (Vaswani et al. 2017).

    Parameters
    ----------
    q, k, v : Variable (..., T, D)
        Queries, keys and values.
    mask : Variable (T, T), optional
        bool; where False, a query does not look.

    Returns
    -------
    Variable (..., T, D)
        softmax(q kᵀ / √D) v.
    """
    scores = divide(matmul(q, swapped(k)), float(q.shape[-1]) ** 0.5)  # type: ignore[arg-type]
    if mask is not None:
        scores = where(broadcast(mask, scores.shape), scores, -np.inf)
    return matmul(softmax(scores), v)


def transformer_block(
    x: Variable, weights: Sequence[Variable], heads: int, mask: Variable | None = None
) -> Variable:
    """Let the rows of a sequence look at one another, then change each by itself; norms come first.

    Parameters
    ----------
    x : Variable (B, T, D)
        Sequences.
    weights : sequence of Variable
        In PyTorch's order and shapes: of queries, keys and values (3D, D), (3D,); output (D, D),
        (D,); two layers (F, D), (F,), (D, F), (D,); gain and bias of two norms, (D,) each.
    heads : int
        Into which D is divided.
    mask : Variable (T, T), optional
        bool; where False, a row does not look.

    Returns
    -------
    Variable (B, T, D)
        Sequences.
    """
    w_in, b_in, w_out, b_out, w1, b1, w2, b2, gain1, bias1, gain2, bias2 = weights
    B, T, D = x.shape
    normed = layer_norm(x, gain1, bias1)
    qkv = reshape(add(matmul(normed, transpose(w_in)), b_in), (B, T, 3, heads, D // heads))
    q, k, v = (transpose(qkv, (2, 0, 3, 1, 4))[i] for i in range(3))  # type: ignore[index]
    mixed = reshape(transpose(attention(q, k, v, mask), (0, 2, 1, 3)), (B, T, D))
    x = add(x, add(matmul(mixed, transpose(w_out)), b_out))
    hidden = gelu(add(matmul(layer_norm(x, gain2, bias2), transpose(w1)), b1))
    return add(x, add(matmul(hidden, transpose(w2)), b2))
