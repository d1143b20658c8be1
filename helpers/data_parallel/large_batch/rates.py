"""Rates for large batches (Goyal et al., 2017): linear scaling, warm-up, momentum correction."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def warmed(step: int, steps: int, rate: float, begin: float = 0.0) -> float:
    """Return the rate of a step that rises linearly over the first `steps`.

    >>> [warmed(step, 4, 1.0) for step in range(5)]
    [0.25, 0.5, 0.75, 1.0, 1.0]
    """
    return rate if step >= steps else begin + (rate - begin) * (step + 1) / steps


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
