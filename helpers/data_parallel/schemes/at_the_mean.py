"""Local SGD without what the loss's curvature does to replicas that are apart: a control."""

from __future__ import annotations

from helpers.data_parallel.replica import Replica
from helpers.data_parallel.schemes.local import LocalSGD


class AtTheMean(LocalSGD):
    """Each replica moves by itself, but all take their gradients at the replicas' mean.

    So a replica's gradient knows nothing of where that replica is: what drives replicas apart is as
    in :class:`LocalSGD`, and nothing pulls them together before they meet. It sends more than
    averaging in each step does; it is there to be compared with.
    """

    def begin(self, replica: Replica) -> None:
        super().begin(replica)
        self._own = replica.flat.values.clone()
        self.name += ", gradients at the mean"

    def before_backward(self, replica: Replica, step: int) -> None:
        """Go to the mean, for this gradient only."""
        self._own.copy_(replica.flat.values)
        self.average(replica.flat.values, self.comm)

    def after_backward(self, replica: Replica, step: int) -> None:
        """Come back."""
        replica.flat.values.copy_(self._own)
