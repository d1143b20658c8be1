"""Gradients averaged by ``torch.distributed``, tensor by tensor."""

from __future__ import annotations

import torch.distributed as dist

from helpers.data_parallel.replica import Replica
from helpers.data_parallel.schemes.default_group import DefaultGroup


class PerTensor(DefaultGroup):
    """The mean gradient by ``torch.distributed``, one message for each tensor of the model.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm
        The ranks of the default group of ``torch.distributed``.
    """

    name = "synchronous, torch"

    def after_backward(self, replica: Replica, step: int) -> None:
        for parameter in replica.model.parameters():
            if parameter.requires_grad:
                dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
