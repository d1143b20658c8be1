"""Synchronous SGD: the gradients averaged in each step, each class by another allreduce."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from helpers.collectives import allreduce
from helpers.data_parallel.history import History
from helpers.data_parallel.replica import Replica
from helpers.data_parallel.scheme import Scheme, average
from helpers.data_parallel.schemes.protocol import GRADIENT, PARAMETERS, receive, wait

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

PATIENCE = 600.0  # seconds
Average = Callable[[Tensor, "Intracomm"], None]


def ring_average(flat: Tensor, comm: Intracomm) -> None:
    """Replace a buffer by its mean over all ranks, by our own ring; the same bits on every rank."""
    values = flat.numpy()
    allreduce(values, comm, algorithm="ring", out=values)
    flat /= comm.Get_size()


def patient_average(flat: Tensor, comm: Intracomm) -> None:
    """Replace a buffer by its mean over all ranks, by MPI's allreduce, napping while it waits.

    For ranks that share cores with other work: who waits leaves the core to who computes.
    """
    from mpi4py import MPI

    wait(comm.Iallreduce(MPI.IN_PLACE, flat.numpy()), PATIENCE, "the others did not average")
    flat /= comm.Get_size()


class MPIAllreduce(Scheme):
    """The mean gradient by MPI's own allreduce, all layers in one call."""

    name = "synchronous, mpi"

    def after_backward(self, replica: Replica, step: int) -> None:
        average(replica.flat.gradients, self.comm)


class Ring(Scheme):
    """The mean gradient by our own ring: 2(R − 1) messages from each of R ranks."""

    name = "synchronous, ours"

    def after_backward(self, replica: Replica, step: int) -> None:
        ring_average(replica.flat.gradients, self.comm)


class ByFunction(Scheme):
    """Synchronous SGD with your own ``sync_gradients(model)``, whose name the history bears.

    Every rank calls ``function`` after the backward pass; it changes its model's gradients in
    place.
    """

    def __init__(self, comm: Intracomm, function: Callable[[nn.Module], object]):
        super().__init__(comm)
        self.function = function
        self.name = f"synchronous, {getattr(function, '__name__', type(function).__name__)}"

    def after_backward(self, replica: Replica, step: int) -> None:
        self.function(replica.model)


class DefaultGroup(Scheme):
    """A scheme of ranks that are the default group of ``torch.distributed``."""

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


class Server(Scheme):
    """Rank 0 averages the gradients of all workers, makes the optimizer's step, and answers.

    W = ranks − 1 workers with batch B make one step of batch W·B. Who is silent for ``patience``
    seconds raises SilenceError.
    """

    name = "synchronous, server"
    server = 0

    def __init__(self, comm: Intracomm, patience: float = 20.0):
        super().__init__(comm)
        self.patience = patience

    def after_backward(self, replica: Replica, step: int) -> None:
        """Workers send their gradient; the server adds it to the mean."""
        gradients = replica.flat.gradients.numpy()
        if not self.serves:
            sent = self.comm.Isend(gradients, 0, GRADIENT)
            wait(sent, self.patience, "the server did not take the gradient")
            return
        arriving = np.empty_like(gradients)
        for worker in self.workers:
            receive(self.comm, arriving, worker, GRADIENT, self.patience)
            gradients += arriving / len(self.workers)

    def after_step(self, replica: Replica, step: int) -> None:
        """Send the new parameters to every worker."""
        values = replica.flat.values.numpy()
        if not self.serves:
            receive(self.comm, values, 0, PARAMETERS, self.patience)
            return
        for worker in self.workers:
            sent = self.comm.Isend(values, worker, PARAMETERS)
            wait(sent, self.patience, f"rank {worker} did not take the parameters")
