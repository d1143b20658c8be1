"""Gradients that travel while the backward pass still runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import nn

from helpers.data_parallel.history import History
from helpers.data_parallel.replica import Replica
from helpers.data_parallel.schemes.averaged import DefaultGroup

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


class Buckets(DefaultGroup):
    """The mean gradient in buckets, each sent as soon as it is full.

    The backward pass reaches the last layer first. As soon as all gradients of a bucket are there,
    its allreduce begins; before the optimizer's step all of them are awaited (Li et al., 2020,
    *PyTorch Distributed*, section 3.2). A bucket has ``nbytes``; a larger tensor has one to itself.
    The ranks are those of the default group of ``torch.distributed``.
    """

    name = "synchronous, buckets"

    def __init__(self, comm: Intracomm, nbytes: int = 64 << 10):
        super().__init__(comm)
        if nbytes < 1:
            raise ValueError(f"a bucket must hold at least 1 byte; got {nbytes}")
        self.nbytes = nbytes

    def begin(self, replica: Replica) -> None:
        """Cut the model into buckets, and watch its gradients arrive."""
        super().begin(replica)
        self._buckets = cut(replica.model, self.nbytes)
        self._missing = [len(bucket) for bucket in self._buckets]
        self._under_way: list = []
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(
                lambda _, number=number: self._arrived(number)
            )
            for number, bucket in enumerate(self._buckets)
            for parameter in bucket
        ]

    def _arrived(self, number: int) -> None:
        self._missing[number] -= 1
        if self._missing[number] == 0:
            self._send(number)

    def _send(self, number: int) -> None:
        gradients = [p.grad for p in self._buckets[number] if p.grad is not None]
        joined = torch.cat([gradient.flatten() for gradient in gradients])
        work = dist.all_reduce(joined, op=dist.ReduceOp.AVG, async_op=True)
        self._under_way.append((work, joined, gradients))
        self._missing[number] = len(gradients)

    def after_backward(self, replica: Replica, step: int) -> None:
        """Wait for every bucket and put the means where the gradients were."""
        for number, bucket in enumerate(self._buckets):
            if self._missing[number] < len(bucket):  # the forward pass left a parameter out
                self._send(number)
        for work, joined, gradients in self._under_way:
            work.wait()
            sizes = [gradient.numel() for gradient in gradients]
            for gradient, mean in zip(gradients, joined.split(sizes), strict=True):
                gradient.copy_(mean.view_as(gradient))
        self._under_way.clear()

    def leave(self, reason: str) -> None:
        for hook in self._hooks:
            hook.remove()

    def end(self, replica: Replica) -> History:
        self.leave("")
        return super().end(replica)


def cut(model: nn.Module, nbytes: int) -> list[list[nn.Parameter]]:
    """Cut a model, last layer first, into buckets of at most `nbytes`, or of one tensor."""
    buckets: list[list[nn.Parameter]] = [[]]
    filled = 0
    for parameter in reversed([p for p in model.parameters() if p.requires_grad]):
        size = parameter.numel() * parameter.element_size()
        if buckets[-1] and filled + size > nbytes:
            buckets.append([])
            filled = 0
        buckets[-1].append(parameter)
        filled += size
    return buckets
