"""What the tests of PyTorch's features run on their ranks, each beside one process that does all.

Every function is called as ``feature(backend)``; with "gloo" it checks itself against PyTorch's
own backend, with "network" ours sends through MPI. They return what all ranks must agree on.
"""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
import time
from datetime import timedelta


def begin(backend: str):
    """Start the default group; return (torch, dist, rank, size, device mesh's backend)."""
    import torch
    import torch.distributed as dist
    from mpi4py import MPI

    import helpers.torch_mpi as ours

    torch.manual_seed(0)
    torch.set_num_threads(1)
    world, method = MPI.COMM_WORLD, "mpi://"
    if backend == "gloo":
        name = tempfile.mktemp() if world.rank == 0 else None
        method = f"file://{world.bcast(name)}"
    options = {"pg_options": ours.Options("network")} if backend == "network" else {}
    dist.init_process_group(
        "gloo" if backend == "gloo" else "mpi4py",
        init_method=method,
        rank=world.rank if backend == "gloo" else -1,
        world_size=world.size if backend == "gloo" else -1,
        timeout=timedelta(seconds=40),
        **options,
    )
    return torch, dist, dist.get_rank(), dist.get_world_size()


def feature(check):
    """Make a check of ``(torch, dist, rank, size)`` one that begins its own group, and ends it."""

    @functools.wraps(check)
    def whole(backend: str, **options) -> None:
        torch, dist, rank, size = begin(backend)
        check(torch, dist, rank, size, **options)
        dist.barrier()  # rank 0 keeps the store
        dist.destroy_process_group()

    FEATURES.append(whole)
    return whole


FEATURES: list = []


def network(torch):
    """Return a small network, the same on every rank, and (X, Y) of 12 rows."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
    return model, torch.randn(12, 6), torch.randn(12, 4)


def expected(torch, steps: int = 3, optimizer: str = "SGD"):
    """Train one copy on all rows: what replicas that share the rows evenly must end with."""
    model, X, Y = network(torch)
    chosen = getattr(torch.optim, optimizer)(model.parameters(), lr=0.1)
    for _ in range(steps):
        chosen.zero_grad()
        torch.nn.functional.mse_loss(model(X), Y).backward()
        chosen.step()
    return [p.detach().clone() for p in model.parameters()]


def train(torch, model, optimizer, X, Y, steps: int = 3):
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(X), Y).backward()
        optimizer.step()


def close(torch, ours, theirs, atol: float = 1e-5) -> None:
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.detach(), b, atol=atol, rtol=0)


@feature
def ddp(torch, dist, rank, size, **options) -> None:
    """DistributedDataParallel, with its options."""
    model, X, Y = network(torch)
    wrapped = torch.nn.parallel.DistributedDataParallel(model, **options)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    train(torch, wrapped, optimizer, X[rank::size], Y[rank::size])
    close(torch, model.parameters(), expected(torch))


def ddp_small_buckets(backend: str) -> None:
    ddp(backend, bucket_cap_mb=1e-5, gradient_as_bucket_view=True, static_graph=True)


FEATURES.append(ddp_small_buckets)


@feature
def ddp_unused(torch, dist, rank, size) -> None:
    """find_unused_parameters: a layer that one step leaves out."""

    class Halves(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = torch.nn.ModuleList(torch.nn.Linear(6, 4) for _ in range(2))

        def forward(self, x, which):
            return self.parts[which](x)

    torch.manual_seed(1)
    model = Halves()
    _, X, Y = network(torch)
    wrapped = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=True)
    for which in (0, 1, 0):
        wrapped.zero_grad()
        out = wrapped(X[rank::size], which)
        torch.nn.functional.mse_loss(out, Y[rank::size]).backward()
        weight = model.parts[which].weight
        ours = weight.grad.clone()
        loss = torch.nn.functional.mse_loss(model.parts[which](X), Y)
        (theirs,) = torch.autograd.grad(loss, weight)
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


@feature
def ddp_accumulate(torch, dist, rank, size) -> None:
    """no_sync: two backward passes, one exchange; Join: ranks with unequal numbers of batches."""
    model, X, Y = network(torch)
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    loss = torch.nn.functional.mse_loss
    mine = list(zip(X[rank::size], Y[rank::size], strict=True))
    half = len(mine) // 2
    for part, context in (
        (mine[:half], wrapped.no_sync()),
        (mine[half:], contextlib.nullcontext()),
    ):
        with context:
            for x, y in part[:-1]:
                with wrapped.no_sync():
                    (loss(wrapped(x), y) / len(mine)).backward()
            (loss(wrapped(part[-1][0]), part[-1][1]) / len(mine)).backward()
    reference, X, Y = network(torch)
    loss(reference(X), Y).backward()
    close(torch, [p.grad for p in model.parameters()], [p.grad for p in reference.parameters()])
    from torch.distributed.algorithms.join import Join

    steps = 0
    with Join([wrapped]):
        for x, y in mine[: rank + 1]:
            loss(wrapped(x), y).backward()
            steps += 1
    assert steps == rank + 1


@feature
def hooks(torch, dist, rank, size) -> None:
    """Communication hooks: fp16, and one's own; PowerSGD is in test_futures."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    def mine(state, bucket):
        work = dist.all_reduce(bucket.buffer().div_(size), async_op=True)
        return work.get_future().then(lambda future: future.value()[0])

    for hook, atol in ((default_hooks.fp16_compress_hook, 5e-3), (mine, 1e-5)):
        model, X, Y = network(torch)
        wrapped = torch.nn.parallel.DistributedDataParallel(model)
        wrapped.register_comm_hook(None, hook)
        optimizer = torch.optim.SGD(wrapped.parameters(), 0.1)
        train(torch, wrapped, optimizer, X[rank::size], Y[rank::size])
        close(torch, model.parameters(), expected(torch), atol)


@feature
def zero(torch, dist, rank, size) -> None:
    """ZeroRedundancyOptimizer, its shards brought together on rank 0."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model, X, Y = network(torch)
    wrapped = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = ZeroRedundancyOptimizer(wrapped.parameters(), torch.optim.Adam, lr=0.1)
    train(torch, wrapped, optimizer, X[rank::size], Y[rank::size])
    close(torch, model.parameters(), expected(torch, optimizer="Adam"), 1e-4)
    optimizer.consolidate_state_dict(0)
    if rank == 0:
        assert len(optimizer.state_dict()["state"]) == 4


@feature
def sharded(torch, dist, rank, size) -> None:
    """fully_shard, then its checkpoint: saved in shards, loaded into another model."""
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (size,))

    def make():
        model, X, Y = network(torch)
        for layer in model:
            if isinstance(layer, torch.nn.Linear):
                fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        return model, torch.optim.Adam(model.parameters(), lr=0.1), X[rank::size], Y[rank::size]

    model, optimizer, X, Y = make()
    train(torch, model, optimizer, X, Y)
    whole = [p.full_tensor() for p in model.parameters()]
    close(torch, whole, expected(torch, optimizer="Adam"), 1e-4)
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
        close(torch, [p.full_tensor() for p in other.parameters()], whole, 0)
    dist.barrier()
    if rank == 0:
        import shutil

        shutil.rmtree(names[0])


@feature
def sharded_bf16(torch, dist, rank, size) -> None:
    """fully_shard in bfloat16: weights gathered and products in it, the master weights in fp32."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    mesh = init_device_mesh("cpu", (size,))
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.bfloat16, torch.float32)
    model, X, Y = network(torch)
    seen = []
    model[0].register_forward_hook(lambda layer, given, out: seen.append(out.dtype))
    fully_shard(model, mesh=mesh, mp_policy=policy)
    train(torch, model, torch.optim.SGD(model.parameters(), 0.1), X[rank::size], Y[rank::size])
    assert set(seen) == {torch.bfloat16}
    whole = [p.full_tensor() for p in model.parameters()]
    assert {p.dtype for p in whole} == {torch.float32}
    close(torch, whole, expected(torch), 5e-3)


@feature
def sharded_as_before(torch, dist, rank, size) -> None:
    """FullyShardedDataParallel, in fp32 and with gradients reduced in bfloat16."""
    from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision

    lower = MixedPrecision(torch.bfloat16, torch.bfloat16, torch.bfloat16)
    for precision, atol in ((None, 1e-5), (lower, 5e-3)):
        model, X, Y = network(torch)
        wrapped = FullyShardedDataParallel(
            model, device_id=torch.device("cpu"), mixed_precision=precision
        )
        train(
            torch, wrapped, torch.optim.SGD(wrapped.parameters(), 0.1), X[rank::size], Y[rank::size]
        )
        with FullyShardedDataParallel.summon_full_params(wrapped):
            whole = [p.detach().clone() for p in wrapped.parameters()]
        theirs = expected(torch)
        if len(whole) == 1:  # one flat parameter, its end filled up
            theirs = [torch.cat([p.flatten() for p in theirs])]
            whole = [whole[0][: len(theirs[0])]]
        close(torch, whole, theirs, atol)


@feature
def dtensor(torch, dist, rank, size) -> None:
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
def tensor_parallel(torch, dist, rank, size) -> None:
    """A layer by columns, the next by rows: one product over the ranks."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import (
        ColwiseParallel,
        RowwiseParallel,
        parallelize_module,
    )

    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.ReLU(), torch.nn.Linear(12, 4))
    X = torch.randn(5, 6)
    whole = model(X)
    whole.sum().backward()
    gradient = model[0].weight.grad.clone()
    model.zero_grad()
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    parallel = parallelize_module(model, init_device_mesh("cpu", (size,)), plan)
    out = parallel(X)
    torch.testing.assert_close(out, whole.detach(), atol=1e-5, rtol=1e-5)
    out.sum().backward()
    torch.testing.assert_close(parallel[0].weight.grad.full_tensor(), gradient)


@feature
def pipelining(torch, dist, rank, size) -> None:
    """torch.distributed.pipelining: a stage a rank, GPipe's schedule."""
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    torch.manual_seed(1)
    layers = [torch.nn.Linear(6, 6) for _ in range(size)]
    X, Y = torch.randn(8, 6), torch.randn(8, 6)
    loss = torch.nn.functional.mse_loss
    whole = torch.nn.Sequential(*layers)
    loss(whole(X), Y).backward()
    gradient = layers[rank].weight.grad.clone()
    layers[rank].zero_grad()
    stage = PipelineStage(layers[rank], rank, size, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=loss)
    losses: list = []
    if rank == 0:
        schedule.step(X)
    elif rank == size - 1:
        schedule.step(target=Y, losses=losses)
    else:
        schedule.step()
    torch.testing.assert_close(layers[rank].weight.grad, gradient, atol=1e-5, rtol=1e-4)


@feature
def compiled_ddp(torch, dist, rank, size) -> None:
    """torch.compile over DDP; no code is generated, so that no compiler is needed."""
    model, X, Y = network(torch)
    wrapped = torch.compile(torch.nn.parallel.DistributedDataParallel(model), backend="aot_eager")
    train(torch, wrapped, torch.optim.SGD(model.parameters(), 0.1), X[rank::size], Y[rank::size])
    close(torch, model.parameters(), expected(torch))


@feature
def functional(torch, dist, rank, size) -> None:
    """Functional collectives, objects, neighbours in one batch, sub-groups."""
    import torch.distributed._functional_collectives as calls

    group = dist.group.WORLD
    total = calls.all_reduce(torch.ones(3), "sum", group)
    assert (total == size).all()
    gathered = calls.all_gather_single(torch.full((2,), float(rank)), 0, group)
    assert gathered.tolist() == [r for r in range(size) for _ in range(2)]
    objects: list = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(size)]
    send, receive = torch.full((4,), float(rank)), torch.empty(4)
    right, left = (rank + 1) % size, (rank - 1) % size
    batch = [dist.P2POp(dist.isend, send, right), dist.P2POp(dist.irecv, receive, left)]
    for work in dist.batch_isend_irecv(batch):
        work.wait()
    assert (receive == left).all()
    odd = dist.new_group([r for r in range(size) if r % 2])
    if rank % 2:
        one = torch.ones(1)
        dist.all_reduce(one, group=odd)
        assert one.item() == size // 2


def in_turn(backend: str, names: list[str]) -> dict[str, float]:
    """Run features one after the other in one set of ranks; return the seconds of each."""
    chosen = {each.__name__: each for each in FEATURES}
    seconds = {}
    for name in names:
        began = time.perf_counter()
        chosen[name](backend)
        seconds[name] = time.perf_counter() - began
    return seconds
