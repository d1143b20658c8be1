"""Gradients averaged by PyTorch's own ``DistributedDataParallel``."""

from __future__ import annotations

from torch.nn.parallel import DistributedDataParallel

from helpers.data_parallel.history import History
from helpers.data_parallel.replica import Replica
from helpers.data_parallel.schemes.default_group import DefaultGroup


class DDP(DefaultGroup):
    """The model in ``DistributedDataParallel``, which averages inside of the backward pass.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        The ranks of the default group of ``torch.distributed``.
    """

    name = "synchronous, ddp"

    def begin(self, replica: Replica) -> None:
        # Wrap the model; the wrapper writes the means into the gradients' flat buffer
        super().begin(replica)
        replica.forward = DistributedDataParallel(replica.model)

    def end(self, replica: Replica) -> History:
        # Take the wrapper off again
        replica.forward = replica.model
        return super().end(replica)
