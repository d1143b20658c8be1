"""Synchronous data-parallel SGD without a server: R replicas in step, gradients by allreduce.

The gradient of a mean over R·B samples is the mean of the R gradients over B samples each, so R
replicas with equal weights that average their gradients *are* one process with batch R·B.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from helpers.data_parallel.history import History, batches
from helpers.models.lenet import Flat, LeNet, backward

WAYS = ("ours", "mpi", "torch", "ddp", "buckets")


def sync_weights(flat: Flat, comm) -> None:
    """Every replica takes rank 0's parameters: averaging gradients keeps equal what is equal."""
    comm.Bcast(flat.values.numpy(), root=0)


def average_ours(flat: Flat, comm) -> None:
    """The mean gradient by our own ring allreduce."""
    from helpers.collectives import allreduce

    gradients = flat.gradients.numpy()
    allreduce(gradients, comm, algorithm="ring", out=gradients)
    flat.gradients /= comm.Get_size()


def average_mpi(flat: Flat, comm) -> None:
    """The mean gradient by MPI's own allreduce."""
    from mpi4py import MPI

    comm.Allreduce(MPI.IN_PLACE, flat.gradients.numpy())
    flat.gradients /= comm.Get_size()


def average_torch(model: nn.Module) -> None:
    """The mean gradient by ``torch.distributed``, one message for each tensor of the model."""
    import torch.distributed as dist

    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)


class Buckets:
    """Gradients that travel while the backward pass still runs.

    The backward pass reaches the last layer first. As soon as all gradients of a bucket are there,
    its allreduce begins; ``finish`` waits for all of them (Li et al., 2020, section 3.2).
    """

    def __init__(self, model: nn.Module, nbytes: int = 64 << 10):
        if nbytes < 1:
            raise ValueError(f"a bucket must hold at least 1 byte; got {nbytes}")
        self._buckets: list[list[nn.Parameter]] = [[]]
        filled = 0
        for parameter in reversed(list(model.parameters())):
            size = parameter.numel() * parameter.element_size()
            if self._buckets[-1] and filled + size > nbytes:
                self._buckets.append([])
                filled = 0
            self._buckets[-1].append(parameter)
            filled += size
        self._missing = [len(bucket) for bucket in self._buckets]
        self._under_way: list = []
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(
                lambda _, number=number: self._arrived(number)
            )
            for number, bucket in enumerate(self._buckets)
            for parameter in bucket
        ]

    def __len__(self) -> int:
        return len(self._buckets)

    def _arrived(self, number: int) -> None:
        import torch.distributed as dist

        self._missing[number] -= 1
        if self._missing[number] == 0:
            gradients = [parameter.grad for parameter in self._buckets[number]]
            joined = torch.cat([gradient.flatten() for gradient in gradients])
            work = dist.all_reduce(joined, op=dist.ReduceOp.AVG, async_op=True)
            self._under_way.append((work, joined, gradients))
            self._missing[number] = len(gradients)

    def finish(self) -> None:
        """Wait for every bucket and put the means where the gradients were."""
        for work, joined, gradients in self._under_way:
            work.wait()
            sizes = [gradient.numel() for gradient in gradients]
            for gradient, mean in zip(gradients, joined.split(sizes), strict=True):
                gradient.copy_(mean.view_as(gradient))
        self._under_way.clear()

    def remove(self) -> None:
        """Take the hooks off the model again."""
        for hook in self._hooks:
            hook.remove()


def train(
    images: np.ndarray,
    labels: np.ndarray,
    comm,
    *,
    way: str = "mpi",
    steps: int = 100,
    batch: int = 16,
    rate: float = 0.05,
    momentum: float = 0.9,
    seed: int = 0,
    slow: dict[int, float] | None = None,
    sync_gradients: Callable[[nn.Module], None] | None = None,
) -> History:
    """Train one LeNet replica on each rank of ``comm``, in step; return the same history on all.

    ``images`` (n, 1, 28, 28), ``labels`` (n,) are all training samples; ``batch`` is B of one rank.
    ``way`` is one of :data:`WAYS`, or give your own ``sync_gradients(model)``. ``slow`` {rank: k}
    makes a rank k times slower. Raises ValueError for another way, or for one that needs
    ``torch.distributed`` when ``comm`` is not the whole of its default group.
    """
    if way not in WAYS:
        raise ValueError(f"way must be one of {', '.join(WAYS)}; got {way!r}")
    rank, ranks = comm.Get_rank(), comm.Get_size()
    model = LeNet(seed=seed + rank)  # replicas begin different, as if nobody had fixed the seed
    flat = Flat(model)
    sync_weights(flat, comm)
    buckets = ddp = None
    if way in ("torch", "ddp", "buckets") and sync_gradients is None:
        _need_default_group(ranks)
        if way == "buckets":
            buckets = Buckets(model)
        elif way == "ddp":
            ddp = nn.parallel.DistributedDataParallel(model)
    synchronize = (
        sync_gradients
        or {
            "ours": lambda _: average_ours(flat, comm),
            "mpi": lambda _: average_mpi(flat, comm),
            "torch": average_torch,
            "ddp": lambda _: None,
            "buckets": lambda _: buckets.finish(),
        }[way]
    )
    optimizer = torch.optim.SGD([flat.parameter], lr=rate, momentum=momentum)
    if ddp is not None:  # it brings gradient buffers of its own
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum)
    history = History(f"synchronous, {way}", ranks, batch)
    chosen = batches(len(labels), batch, rank, ranks, seed)
    computing, synchronizing = [], []
    comm.Barrier()
    began = time.perf_counter()
    for _ in range(steps):
        where = next(chosen)
        optimizer.zero_grad(set_to_none=False)
        start = time.perf_counter()
        x, y = torch.from_numpy(images[where]), torch.from_numpy(labels[where])
        loss = backward(ddp or model, x, y)
        if slow and rank in slow:
            time.sleep((slow[rank] - 1) * (time.perf_counter() - start))
        middle = time.perf_counter()
        synchronize(model)
        end = time.perf_counter()
        optimizer.step()
        computing.append(middle - start)
        synchronizing.append(end - middle)
        history.record(time.perf_counter() - began, loss)
    if buckets is not None:
        buckets.remove()
    everyone = comm.allgather(history.losses)
    history.losses = np.mean(everyone, axis=0).tolist()
    history.seconds = np.max(comm.allgather(history.seconds), axis=0).tolist()
    history.gradients = steps * ranks
    history.compute = max(comm.allgather(statistics.median(computing)))
    history.synchronize = min(comm.allgather(statistics.median(synchronizing)))
    weights = [p.detach().flatten() for p in model.parameters()]
    history.weights = torch.cat(weights).numpy()
    return history


def _need_default_group(ranks: int) -> None:
    import torch.distributed as dist

    if not dist.is_initialized():
        raise ValueError(
            "this way needs torch.distributed: import helpers.torch_mpi, then call "
            "torch.distributed.init_process_group('mpi4py', init_method='mpi://')"
        )
    if dist.get_world_size() != ranks:
        raise ValueError(
            f"the default group of torch.distributed has {dist.get_world_size()} ranks, "
            f"the communicator {ranks}"
        )
