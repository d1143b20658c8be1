"""Out of step, old gradients counting less (Zhang, Gupta, Lian, Liu, 2016)."""

from __future__ import annotations

from helpers.data_parallel.replica import Replica
from helpers.data_parallel.schemes.asynchronous import Asynchronous


class StalenessAware(Asynchronous):
    """The asynchronous server, where a gradient τ updates old is divided by τ."""

    name = "asynchronous, λ ÷ τ"

    def update(self, replica: Replica, step: int) -> None:
        if self.serves:
            replica.flat.gradients /= max(1, self.staleness)
        super().update(replica, step)
