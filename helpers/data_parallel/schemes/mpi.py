"""Gradients averaged by MPI's own allreduce: the plainest scheme, and the others' peer."""

from __future__ import annotations

from helpers.data_parallel.replica import Replica
from helpers.data_parallel.scheme import Scheme, average


class MPIAllreduce(Scheme):
    """The mean gradient by MPI, all layers in one call.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        The ranks.
    """

    name = "synchronous, mpi"

    def after_backward(self, replica: Replica, step: int) -> None:
        average(replica.flat.gradients, self.comm)
