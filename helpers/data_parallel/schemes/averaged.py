"""Synchronous SGD: the gradients averaged in each step, each class by another allreduce."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from helpers.collectives import allreduce
from helpers.data_parallel.history import History
from helpers.data_parallel.replica import Replica
from helpers.data_parallel.scheme import Scheme, average

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


class MPIAllreduce(Scheme):
    """The mean gradient by MPI's own allreduce, all layers in one call."""

    name = "synchronous, mpi"
    by_samples = True

    def after_backward(self, replica: Replica, step: int) -> None:
        average(replica.flat.gradients, self.comm)


class Ring(Scheme):
    """The mean gradient by our own ring: 2(R − 1) messages from each of R ranks."""

    name = "synchronous, ours"
    by_samples = True

    def after_backward(self, replica: Replica, step: int) -> None:
        gradients = replica.flat.gradients.numpy()
        allreduce(gradients, self.comm, algorithm="ring", out=gradients)
        replica.flat.gradients /= self.comm.Get_size()


class ByFunction(Scheme):
    """Synchronous SGD with your own ``sync_gradients(model)``, whose name the history bears.

    Every rank calls ``function`` after the backward pass; it changes its model's gradients in
    place.
    """

    by_samples = True

    def __init__(self, comm: Intracomm, function: Callable[[nn.Module], object]):
        super().__init__(comm)
        self.function = function
        self.name = f"synchronous, {getattr(function, '__name__', type(function).__name__)}"

    def after_backward(self, replica: Replica, step: int) -> None:
        self.function(replica.model)


class DefaultGroup(Scheme):
    """A scheme of ranks that are the default group of ``torch.distributed``."""

    by_samples = True

    def begin(self, replica: Replica) -> None:
        ranks = self.comm.Get_size()
        if not dist.is_initialized():
            raise ValueError(
                f"{type(self).__name__} needs torch.distributed: import helpers.torch_mpi, then "
                "call torch.distributed.init_process_group('mpi4py', init_method='mpi://')"
            )
        if dist.get_world_size() != ranks:
            raise ValueError(
                f"the default group of torch.distributed has {dist.get_world_size()} ranks, "
                f"the communicator {ranks}"
            )
        super().begin(replica)


class PerTensor(DefaultGroup):
    """The mean gradient by ``torch.distributed``, one message for each tensor of the model."""

    name = "synchronous, torch"

    def after_backward(self, replica: Replica, step: int) -> None:
        for parameter in replica.model.parameters():
            if parameter.requires_grad:
                dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)


class DDP(DefaultGroup):
    """The model in ``DistributedDataParallel``, which averages inside of the backward pass."""

    name = "synchronous, ddp"

    def begin(self, replica: Replica) -> None:
        """Wrap the model; the wrapper writes the means into the gradients' flat buffer."""
        super().begin(replica)
        replica.forward = DistributedDataParallel(replica.model)

    def end(self, replica: Replica) -> History:
        """Take the wrapper off again."""
        replica.forward = replica.model
        return super().end(replica)
