"""DiLoCo (Douillard et al., 2023): the way of a round is a gradient for a second optimizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from helpers.data_parallel.replica import Replica
from helpers.data_parallel.schemes.local import Average, LocalSGD, ring_average

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


class DiLoCo(LocalSGD):
    """H steps of any inner optimizer, then one outer step by what the replicas have moved.

    With θ where the round began and θ_r where replica r has arrived, Δ = θ − mean θ_r is taken for
    a gradient: v ← μ·v + Δ, θ ← θ − η·(Δ + μ·v), Nesterov's momentum. All replicas go on from
    there. η = 1 and μ = 0 are local SGD. The inner optimizer keeps its own state.

    ``period`` and ``average`` are :class:`LocalSGD`'s.

    Parameters
    ----------
    rate : float
        η of the outer step; 0.7 in the paper.
    momentum : float
        μ of the outer step, in [0, 1); 0.9 in the paper.
    """

    def __init__(
        self,
        comm: Intracomm,
        period: int | Callable[[int], int],
        rate: float = 0.7,
        momentum: float = 0.9,
        average: Average = ring_average,
    ):
        super().__init__(comm, period, average)
        if not (rate > 0 and 0 <= momentum < 1):
            raise ValueError(
                "DiLoCo expects an outer rate above 0 and a momentum in [0, 1); "
                f"got rate={rate!r}, momentum={momentum!r}"
            )
        self.rate, self.momentum = rate, momentum
        self.name = self.name.replace("local SGD", "DiLoCo")

    def begin(self, replica: Replica) -> None:
        """Remember where the first round begins."""
        super().begin(replica)
        self.anchor = replica.flat.values.clone()
        self.velocity = torch.zeros_like(self.anchor)

    def meet(self, replica: Replica) -> None:
        # One outer step
        values = replica.flat.values
        self.average(values, self.comm)
        moved = self.anchor - values
        self.velocity.mul_(self.momentum).add_(moved)
        self.anchor -= self.rate * (moved + self.momentum * self.velocity)
        values.copy_(self.anchor)
