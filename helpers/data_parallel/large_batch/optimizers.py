"""Optimizers for large batches: with a rate for each layer, or for rates that change.

Goyal et al. (2017) scale the rate with the batch, warm it up and correct the momentum.

LARS (You, Gitman, Ginsburg, 2017): a layer's local rate is ‖w‖ / ‖g‖ times a trust η.
LAMB (You et al., 2020): the same idea on Adam's step. Vectors (biases) keep the plain step.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.optim import Optimizer

MOMENTUM = 0.9  # of LARS
BETAS, EPSILON = (0.9, 0.999), 1e-6  # of LAMB


def _trust(weight: Tensor, step: Tensor) -> float:
    """‖w‖ / ‖step‖, or 1 where either is 0 or the parameter is a vector."""
    if weight.ndim < 2:
        return 1.0
    size, length = float(weight.norm()), float(step.norm())
    return size / length if size > 0 and length > 0 else 1.0


class LARS(Optimizer):
    """SGD with momentum, each matrix at a rate of ‖w‖ / ‖g‖; `lr` is λ times the trust η."""

    def __init__(self, params: Iterable[Tensor], lr: float):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: object = None) -> None:  # type: ignore[override]
        """Move the parameters."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                moving = self.state[p].setdefault("momentum", torch.zeros_like(p))
                local = group["lr"] * _trust(p, p.grad)
                moving.mul_(MOMENTUM).add_(p.grad, alpha=local)
                p.sub_(moving)


class LAMB(Optimizer):
    """Adam whose step has, for each matrix, λ times the length of the weights."""

    def __init__(self, params: Iterable[Tensor], lr: float):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: object = None) -> None:  # type: ignore[override]
        """Move the parameters."""
        first, second = BETAS
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state.update(step=0, mean=torch.zeros_like(p), square=torch.zeros_like(p))
                state["step"] += 1
                state["mean"].lerp_(p.grad, 1 - first)
                state["square"].lerp_(p.grad.square(), 1 - second)
                mean = state["mean"] / (1 - first ** state["step"])
                square = state["square"] / (1 - second ** state["step"])
                step = mean / (square.sqrt() + EPSILON)
                p.sub_(step, alpha=group["lr"] * _trust(p, step))


def warmed(step: int, steps: int, rate: float) -> float:
    """Return the rate of a step that rises linearly over the first `steps`.

    >>> [warmed(step, 4, 1.0) for step in range(5)]
    [0.25, 0.5, 0.75, 1.0, 1.0]
    """
    return rate if step >= steps else rate * (step + 1) / steps


class AbsorbedSGD:
    """SGD whose momentum has the rate in it: u ← m·u + λ·g, θ ← θ − u.

    With one rate it is PyTorch's v ← m·v + g, θ ← θ − λ·v. When λ changes, u still has the old one
    in it; the correction takes m·λ_{t+1}/λ_t in place of m, and both are the same again.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float,
        momentum: float = 0.9,
        corrected: bool = False,
    ):
        self._parameters = list(parameters)
        self.param_groups: list[dict] = [{"params": self._parameters, "lr": lr}]
        self.momentum, self.corrected, self._last = momentum, corrected, lr
        self._moving = [torch.zeros_like(p) for p in self._parameters]

    @torch.no_grad()
    def step(self) -> None:
        """Move the parameters against their gradients."""
        rate = self.param_groups[0]["lr"]
        momentum = self.momentum * (rate / self._last if self.corrected and self._last else 1.0)
        self._last = rate
        for p, u in zip(self._parameters, self._moving, strict=True):
            if p.grad is not None:
                u.mul_(momentum).add_(p.grad, alpha=rate)
                p.sub_(u)
