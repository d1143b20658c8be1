"""A stage: some layers and what they keep of each micro-batch. No messages here.

first, second = Stage(nn.Linear(2, 3)), Stage(nn.Linear(3, 1), loss=functional.mse_loss)
y = first.forward(0, x)
second.forward(0, y, target)  # the loss
gradient = second.backward(0)
first.backward(0, gradient)
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from helpers.pipeline.memory import Kept, Meter


@dataclass
class _Pass:
    """What is kept of one micro-batch between its forward and its backward pass."""

    x: Tensor
    target: Tensor | None
    y: Tensor | None  # None where it will be computed again
    kept: Kept | None = None
    later: Later | None = None


class Stage:
    """Layers that run forward and backward for one micro-batch at a time.

    The last stage has a loss, (output, target) → a number, which ``scale`` multiplies.
    ``recompute`` keeps only a micro-batch's input and goes forward again before it goes back;
    ``split`` has backward passes in two parts.
    """

    def __init__(
        self,
        module: nn.Module,
        loss: Callable[[Tensor, Tensor], Tensor] | None = None,
        scale: float = 1.0,
        recompute: bool = False,
        split: bool = False,
        meter: Meter | None = None,
    ) -> None:
        self.module, self.loss, self.scale = module, loss, scale
        self.recompute, self.meter = recompute, meter
        self._put = put_off(module) if split else None
        self._passes: dict[int, _Pass] = {}

    @property
    def kept(self) -> int:
        """How many micro-batches something is kept of."""
        return len(self._passes)

    def forward(self, micro: int, x: Tensor, target: Tensor | None = None) -> Tensor:
        """Go forward; return what the next stage needs, or the last stage's loss, not scaled."""
        x = x.detach()
        if x.is_floating_point():
            x.requires_grad_()
        held = _Pass(x, target, None)
        if self.recompute:
            with torch.no_grad():
                y = self._whole(x, target)
            held.kept = self.meter.keep(x) if self.meter else None
        else:
            with self._watched():
                held.y = y = self._whole(x, target)
        self._passes[micro] = held
        return y.detach()

    def backward(self, micro: int, gradient: Tensor | None = None) -> Tensor | None:
        """Go backward and forget the micro-batch; return the gradient for the stage before."""
        back = self.backward_input(micro, gradient)
        self.backward_weight(micro)
        return back

    def backward_input(self, micro: int, gradient: Tensor | None = None) -> Tensor | None:
        """Go backward as far as the stage before needs it."""
        held = self._passes[micro]
        if held.y is None:
            with self._watched():
                held.y = self._whole(held.x, held.target)
        if self._put:
            held.later = self._put[0] = Later()
        if self.loss is not None:
            (held.y * self.scale).backward()
        else:
            held.y.backward(gradient)
        held.y = held.kept = None
        if held.later and self.meter:  # what the weights' part will need is kept on
            held.kept = [self.meter.keep(t) for _, x, g in held.later.jobs for t in (x, g)]  # type: ignore[assignment]
        return held.x.grad

    def backward_weight(self, micro: int) -> None:
        """Do what is left of a backward pass, and forget the micro-batch."""
        held = self._passes.pop(micro)
        if held.later:
            held.later.work()

    def _whole(self, x: Tensor, target: Tensor | None) -> Tensor:
        y = self._layers(x)
        return y if self.loss is None else self.loss(y, target)  # type: ignore[arg-type]

    def _layers(self, x: Tensor) -> Tensor:
        return self.module(x)

    def _watched(self) -> Any:
        if self.meter is None:
            return contextlib.nullcontext()
        return self.meter.watch(self._weights())

    def _weights(self) -> Any:
        return self.module.parameters()


class Later:
    """Work that was put off: ``jobs`` has the parameter, the input and the gradient of each.

    For y = x Aᵀ + b and the gradient g of y, the rank before waits for g A, and nobody for gᵀ x
    (zero-bubble pipelines: Qi et al., 2024).
    """

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
