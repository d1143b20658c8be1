"""Cures of staleness: asynchronous schemes in which an old gradient does less harm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.data_parallel.replica import Replica
from helpers.data_parallel.schemes.asynchronous import Asynchronous
from helpers.data_parallel.schemes.protocol import Hello

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


class StalenessAware(Asynchronous):
    """The asynchronous server; a gradient τ updates old is divided by τ (Zhang et al., 2016)."""

    name = "asynchronous, λ ÷ τ"

    def update(self, replica: Replica, step: int) -> None:
        if self.serves:
            replica.flat.gradients /= max(1, self.staleness)
        super().update(replica, step)


class Elastic(Asynchronous):
    """The server holds a centre, and workers bring parameters (Zhang, Choromanska, LeCun, 2015).

    Workers train by themselves. Every ``period`` steps a worker and the centre c pull on each
    other: d = ρ(θ − c), θ ← θ − d, c ← c + d.

    One conversation does both pulls: the worker sends θ, the server answers with the new centre c'
    = c + ρ(θ − c), and as θ − c' = (1 − ρ)(θ − c), the worker finds d = ρ/(1 − ρ)·(θ − c'). An
    update of the server is one pull; what it learns at the end is the centre. ``period`` counts a
    worker's steps from one pull to the next, ``pull`` is ρ, above 0 and below 1.
    """

    def __init__(self, comm: Intracomm, period: int = 4, pull: float = 0.1, **options: Any):
        super().__init__(comm, **options)
        if period < 1 or not 0 < pull < 1:
            raise ValueError(
                f"Elastic expects period >= 1 and 0 < pull < 1; got {period} and {pull}"
            )
        self.period, self.pull = period, pull
        self.name = f"elastic, every {period}, ρ = {pull:g}"

    def before_backward(self, replica: Replica, step: int) -> None:
        super().before_backward(replica, step)
        if step == 0 and not self.serves:  # the parameters are there: centres come elsewhere
            self._mine = self.layers
            self.layers = [np.empty_like(layer) for layer in self._mine]

    def after_backward(self, replica: Replica, step: int) -> None:
        """A worker keeps its gradient to itself; the server takes the next one's parameters."""
        if self.serves:
            super().after_backward(replica, step)

    def update(self, replica: Replica, step: int) -> None:
        """A worker makes a step of its own; the server moves the centre."""
        if not self.serves:
            replica.optimizer.step()
        else:
            replica.flat.values += self.pull * (replica.flat.gradients - replica.flat.values)

    def after_step(self, replica: Replica, step: int) -> None:
        """Pull on each other."""
        if self.serves:
            super().after_step(replica, step)
        elif (step + 1) % self.period == 0:
            loss, batch = replica.last_loss, replica.history.batch
            self.call(Hello("gradient", self.sizes, self.version, loss, batch), self._mine)
            for mine, centre in zip(self._mine, self.layers, strict=True):
                mine -= self.pull / (1 - self.pull) * (mine - centre)
