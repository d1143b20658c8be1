"""Gradients averaged by MPI's own allreduce: the plainest scheme, and the others' peer."""

from __future__ import annotations

from helpers.data_parallel.replica import Replica
from helpers.data_parallel.scheme import Scheme, average


class MPIAllreduce(Scheme):
    """The mean gradient by MPI, all layers in one call."""

    name = "synchronous, mpi"

    def after_backward(self, replica: Replica, step: int) -> None:
        """Replace the gradients by their mean over all ranks."""
        average(replica.flat.gradients, self.comm)
