"""What the tests of PyTorch's features run on their ranks, each beside one process that does all.

Every function is called as ``feature(path)``: "network" sends through MPI.
"""

from __future__ import annotations

import functools
import os
import shutil
import tempfile

import torch
import torch.distributed as dist
from torch.nn.functional import mse_loss
from torch.nn.parallel import DistributedDataParallel

from tests.torch_mpi.ranks import start


def feature(check):
    """Make a check of ``(rank, size)`` one that begins its own group, and ends it."""

    @functools.wraps(check)
    def whole(path: str, **options) -> None:
        torch.manual_seed(0)
        torch.set_num_threads(1)
        rank, size = start(path, timeout=40.0)
        check(rank, size, **options)
        dist.barrier()  # rank 0 keeps the store
        dist.destroy_process_group()

    return whole


def network(rank: int = 0, size: int = 1):
    """Return a small network, the same on every rank, and a rank's share (X, Y) of 12 rows."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    return model, torch.randn(12, 6)[rank::size], torch.randn(12, 4)[rank::size]


def expected(optimizer: str = "SGD"):
    """Train one copy on all rows: what replicas that share the rows evenly must end with."""
    model, X, Y = network()
    train(model, getattr(torch.optim, optimizer)(model.parameters(), lr=0.1), X, Y)
    return [p.detach().clone() for p in model.parameters()]


def train(model, optimizer, X, Y):
    for _ in range(3):
        optimizer.zero_grad()
        mse_loss(model(X), Y).backward()
        optimizer.step()


def close(ours, theirs, atol: float = 1e-5) -> None:
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.detach(), b, atol=atol, rtol=0)


@feature
def ddp(rank, size, **options) -> None:
    """DistributedDataParallel, with its options."""
    model, X, Y = network(rank, size)
    wrapped = DistributedDataParallel(model, **options)
    train(wrapped, torch.optim.SGD(wrapped.parameters(), lr=0.1), X, Y)
    close(model.parameters(), expected())


def ddp_small_buckets(path: str) -> None:
    ddp(path, bucket_cap_mb=1e-5, gradient_as_bucket_view=True, static_graph=True)


@feature
def ddp_unused(rank, size) -> None:
    """find_unused_parameters: a layer that one step leaves out."""

    class Halves(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = torch.nn.ModuleList(torch.nn.Linear(6, 4) for _ in range(2))

        def forward(self, x, which):
            return self.parts[which](x)

    torch.manual_seed(1)
    model = Halves()
    (_, *whole), (_, *mine) = network(), network(rank, size)
    wrapped = DistributedDataParallel(model, find_unused_parameters=True)
    for which in (0, 1, 0):
        wrapped.zero_grad()
        mse_loss(wrapped(mine[0], which), mine[1]).backward()
        weight = model.parts[which].weight
        ours = weight.grad.clone()
        loss = mse_loss(model.parts[which](whole[0]), whole[1])
        (theirs,) = torch.autograd.grad(loss, weight)
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


@feature
def zero(rank, size) -> None:
    """ZeroRedundancyOptimizer, its shards brought together on rank 0."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model, X, Y = network(rank, size)
    wrapped = DistributedDataParallel(model)
    optimizer = ZeroRedundancyOptimizer(wrapped.parameters(), torch.optim.Adam, lr=0.1)
    train(wrapped, optimizer, X, Y)
    close(model.parameters(), expected(optimizer="Adam"), 1e-4)
    optimizer.consolidate_state_dict(0)
    if rank == 0:
        assert len(optimizer.state_dict()["state"]) == 4


@feature
def sharded(rank, size) -> None:
    """fully_shard, then its checkpoint: saved in shards, loaded into another model."""
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (size,))

    def make():
        model, X, Y = network(rank, size)
        for layer in model:
            if isinstance(layer, torch.nn.Linear):
                fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model, torch.optim.Adam(model.parameters(), lr=0.1), X, Y

    model, optimizer, X, Y = make()
    train(model, optimizer, X, Y)
    whole = [p.full_tensor() for p in model.parameters()]
    close(whole, expected(optimizer="Adam"), 1e-4)
    assert sum(p.to_local().numel() for p in model.parameters()) < sum(p.numel() for p in whole)
    name = tempfile.mkdtemp(prefix="checkpoint-") if rank == 0 else None
    names = [name]
    dist.broadcast_object_list(names, 0)
    for folder, save in (("now", checkpoint.save), ("later", checkpoint.async_save)):
        weights, state = get_state_dict(model, optimizer)
        path = os.path.join(names[0], folder)
        saved = save({"model": weights, "optimizer": state}, checkpoint_id=path)
        if folder == "later":
            saved.result(timeout=60)
        dist.barrier()
        other, its, X, Y = make()
        weights, state = get_state_dict(other, its)
        there = {"model": weights, "optimizer": state}
        checkpoint.load(there, checkpoint_id=path)
        set_state_dict(
            other, its, model_state_dict=there["model"], optim_state_dict=there["optimizer"]
        )
        close([p.full_tensor() for p in other.parameters()], whole, 0)
    dist.barrier()
    if rank == 0:
        shutil.rmtree(names[0])


@feature
def dtensor(rank, size) -> None:
    """DTensor: sharded products, resharding, partial sums; a mesh of two dimensions."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (size,))
    torch.manual_seed(2)
    A, B = torch.randn(4 * size, 6), torch.randn(6, 5)
    product = distribute_tensor(A, mesh, [Shard(0)]) @ distribute_tensor(B, mesh, [Replicate()])
    torch.testing.assert_close(product.full_tensor(), A @ B)
    columns = product.redistribute(placements=[Shard(1)])
    torch.testing.assert_close(columns.full_tensor(), A @ B)
    inner = distribute_tensor(A.T.contiguous(), mesh, [Shard(1)]) @ product
    assert isinstance(inner.placements[0], Partial)
    torch.testing.assert_close(inner.full_tensor(), A.T @ (A @ B), atol=1e-4, rtol=1e-4)
    if size % 2 == 0:
        plane = init_device_mesh("cpu", (size // 2, 2), mesh_dim_names=("data", "model"))
        total = torch.tensor([float(rank)])
        dist.all_reduce(total, group=plane["model"].get_group())
        assert total.item() == 2 * (rank - rank % 2) + 1
        both = distribute_tensor(A, plane, [Shard(0), Shard(1)])
        torch.testing.assert_close(both.full_tensor(), A)


@feature
def pipelining(rank, size) -> None:
    """torch.distributed.pipelining: a stage a rank, GPipe's schedule."""
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    torch.manual_seed(1)
    layers = [torch.nn.Linear(6, 6) for _ in range(size)]
    X, Y = torch.randn(8, 6), torch.randn(8, 6)
    whole = torch.nn.Sequential(*layers)
    mse_loss(whole(X), Y).backward()
    gradient = layers[rank].weight.grad.clone()
    layers[rank].zero_grad()
    stage = PipelineStage(layers[rank], rank, size, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=mse_loss)
    losses: list = []
    if rank == 0:
        schedule.step(X)
    elif rank == size - 1:
        schedule.step(target=Y, losses=losses)
    else:
        schedule.step()
    torch.testing.assert_close(layers[rank].weight.grad, gradient, atol=1e-5, rtol=1e-4)


@feature
def compiled_ddp(rank, size) -> None:
    """torch.compile over DDP; no code is generated, so that no compiler is needed."""
    model, X, Y = network(rank, size)
    wrapped = torch.compile(DistributedDataParallel(model), backend="aot_eager")
    train(wrapped, torch.optim.SGD(model.parameters(), 0.1), X, Y)
    close(model.parameters(), expected())


def in_turn(path: str, features: list) -> None:
    """Run features one after the other in one set of ranks."""
    for each in features:
        each(path)
