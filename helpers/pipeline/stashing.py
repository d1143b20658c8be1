"""PipeDream's stage: it updates its weights after every micro-batch, while others are under way.

A micro-batch that went forward before an update goes backward after it. With *stashing* the stage
keeps, for each micro-batch under way, the weights that it went forward with; without, the backward
pass meets weights that its activations do not come from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from helpers.pipeline.memory import Meter
from helpers.pipeline.stage import Stage


class UpdatingStage(Stage):
    """A stage with versions of its weights; ``stash`` lets micro-batches keep theirs."""

    def __init__(
        self,
        module: nn.Module,
        rate: float,
        loss: Callable[[Tensor, Tensor], Tensor] | None = None,
        stash: bool = True,
        meter: Meter | None = None,
    ) -> None:
        super().__init__(module, loss, meter=meter)
        self.rate, self.stash = rate, stash
        self.version = 0
        self.staleness: dict[int, int] = {}
        self.gradients: dict[int, list[Tensor]] = {}
        self.most_versions = 1
        self._used: dict[int, tuple[int, dict[str, Tensor]]] = {}
        self._newest = self._copy()

    def forward(self, micro: int, x: Tensor, target: Tensor | None = None) -> Tensor:
        """Go forward with the newest weights, and remember which these were."""
        self._used[micro] = (self.version, self._newest)
        versions = {version for version, _ in self._used.values()} | {self.version}
        self.most_versions = max(self.most_versions, len(versions) if self.stash else 1)
        return super().forward(micro, x, target)

    def update(self, micro: int) -> None:
        """Follow a micro-batch's gradient, wherever the weights are by now."""
        version, used = self._used.pop(micro)
        self.staleness[micro] = self.version - version
        found = [weight.grad for weight in used.values()]
        self.gradients[micro] = [g.clone() for g in found if g is not None]
        for weight in used.values():
            weight.grad = None
        with torch.no_grad():
            new = {
                name: now if g is None else now - self.rate * g
                for (name, now), g in zip(self._newest.items(), found, strict=True)
            }
            for name, parameter in self.module.named_parameters():
                parameter.copy_(new[name])
            if self.stash:  # a new version beside those in use
                self._newest = self._copy()
            else:  # in place, behind autograd's back: graphs under way now hold these weights
                for name, weight in self._newest.items():
                    weight.data.copy_(new[name])
        self.version += 1

    def _copy(self) -> dict[str, Tensor]:
        named = self.module.named_parameters()
        return {name: p.detach().clone().requires_grad_() for name, p in named}

    def _layers(self, x: Tensor) -> Tensor:
        return torch.func.functional_call(self.module, self._newest, (x,))

    def _weights(self) -> Iterable[Any]:
        return self._newest.values()
