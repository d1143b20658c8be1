"""Gradients averaged by the ring allreduce of ``helpers.collectives``."""

from __future__ import annotations

from helpers.collectives import allreduce
from helpers.data_parallel.replica import Replica
from helpers.data_parallel.scheme import Scheme


class Ring(Scheme):
    """The mean gradient by our own ring: 2(R − 1) messages from each of R ranks.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        The ranks.
    """

    name = "synchronous, ours"

    def after_backward(self, replica: Replica, step: int) -> None:
        gradients = replica.flat.gradients.numpy()
        allreduce(gradients, self.comm, algorithm="ring", out=gradients)
        replica.flat.gradients /= self.comm.Get_size()
