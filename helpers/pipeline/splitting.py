"""The backward pass in two parts: the gradients of the inputs now, those of the weights later.

For y = x Aᵀ + b and the gradient g of y, the rank before waits for g A, and nobody for gᵀ x: a
linear layer puts x and g aside, and `Later.work` does the rest. (Zero-bubble pipelines: Qi et al.,
2024.) What is not the matrix of a linear layer has little work and is not put off.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Later:
    """Work that was put off: ``jobs`` has the parameter, the input and the gradient of each."""

    def __init__(self) -> None:
        self.jobs: list[tuple[nn.Parameter, Tensor, Tensor]] = []

    def work(self) -> None:
        """Add gᵀ x to each matrix's gradient, and forget x and g."""
        with torch.no_grad():
            while self.jobs:
                weight, x, g = self.jobs.pop()
                found = _rows(g).T @ _rows(x)  # (out, n) (n, in)
                weight.grad = found if weight.grad is None else weight.grad.add_(found)


class _PutOff(torch.autograd.Function):
    """A linear map whose backward pass leaves the weights' part for later."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, put: list) -> Tensor:
        ctx.save_for_backward(x)
        ctx.weight, ctx.has_bias, ctx.put = weight, bias is not None, put
        return functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple:  # type: ignore[override]
        (x,) = ctx.saved_tensors
        ctx.put[0].jobs.append((ctx.weight, x, g))
        back = g @ ctx.weight if ctx.needs_input_grad[0] else None
        return back, None, _rows(g).sum(0) if ctx.has_bias else None, None


def put_off(module: nn.Module) -> list[Later]:
    """Let a module's linear layers put their weights' part off, into the list's one `Later`."""
    put = [Later()]
    for part in module.modules():
        if isinstance(part, nn.Linear):
            part.forward = _linear(part, put)  # type: ignore[method-assign]
    return put


def _linear(part: nn.Linear, put: list[Later]) -> Any:
    def forward(x: Tensor) -> Tensor:
        return _PutOff.apply(x, part.weight, part.bias, put)

    return forward


def _rows(x: Tensor) -> Tensor:
    return x.reshape(-1, x.shape[-1])  # (..., n) → (rows, n)
