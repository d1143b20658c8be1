"""The same computation here and in PyTorch: value, gradient, and gradient of the gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from helpers import autodiff


def assert_agrees(
    ours: Callable[..., Any],
    theirs: Callable[..., Any],
    arrays: Sequence[np.ndarray],
    shapes: Sequence[tuple] | None = None,
    tolerance: float = 1e-10,
) -> None:
    """Compare value, gradients and Hessian-vector products, at most ``tolerance`` apart.

    ``shapes``, with symbols, are those that the graph is built with; the arrays' own unless given.
    """
    random = np.random.default_rng(8)
    variables = [
        autodiff.variable(f"x{i}", shape, a.dtype)
        for i, (a, shape) in enumerate(
            zip(arrays, shapes or [a.shape for a in arrays], strict=True)
        )
    ]
    floating = [i for i, a in enumerate(arrays) if a.dtype.kind == "f"]
    y = ours(*variables)
    tensors = [torch.tensor(a, requires_grad=i in floating) for i, a in enumerate(arrays)]
    reference = theirs(*tensors)
    weight = random.normal(size=reference.shape)
    directions = [random.normal(size=arrays[i].shape) for i in floating]

    first = autodiff.gradients(
        y, [variables[i] for i in floating], seed=(w := autodiff.variable("w", y.shape))
    )
    vs = [autodiff.variable("v", variables[i].shape) for i in floating]
    slope = sum(autodiff.sum(g * v) for g, v in zip(first, vs, strict=True))
    second = autodiff.gradients(slope, [variables[i] for i in floating])
    run = autodiff.function([*variables, w, *vs], [y, *first, *second])
    got = run(*arrays, weight, *directions)

    wrt = [tensors[i] for i in floating]
    loss = (reference * torch.tensor(weight)).sum()
    expected = _grad(loss, wrt)
    slope = sum((g * torch.tensor(v)).sum() for g, v in zip(expected, directions, strict=True))
    wanted = [
        reference,
        *expected,
        *(_grad(slope, wrt) if slope.requires_grad else map(torch.zeros_like, wrt)),
    ]
    names = ["value", *(f"gradient {i}" for i in floating), *(f"second {i}" for i in floating)]
    for name, a, b in zip(names, got, wanted, strict=True):
        assert a.shape == tuple(b.shape), name
        np.testing.assert_allclose(a, b.numpy(force=True), tolerance, tolerance, err_msg=name)


def _grad(y: torch.Tensor, xs: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    if not y.requires_grad:
        return tuple(map(torch.zeros_like, xs))
    return torch.autograd.grad(y, xs, create_graph=True, allow_unused=True, materialize_grads=True)
