"""What the tests of errors run on their ranks: each returns what a rank was told."""

from __future__ import annotations

import time

from tests.torch_mpi.ranks import start


def told(call) -> str:
    """Return the error that a call raises, in words."""
    try:
        call()
    except (RuntimeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def check_backward(path: str) -> list[str]:
    """Rank 0 has one batch less than the others, and then does something else."""
    messages = []
    for how in range(4):
        torch, dist, rank, _ = start(path, timeout=3.0)  # more than network.GRACE
        net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))

        def train(batches: int, net=net, torch=torch) -> None:
            for _ in range(batches):
                net(torch.ones(2)).sum().backward()

        others = [
            dist.barrier,
            lambda dist=dist, torch=torch: dist.all_reduce(torch.ones(1)),
            dist.destroy_process_group,
            lambda: time.sleep(4),
        ]
        train(2)
        messages.append(told(lambda train=train: train(1)) if rank else told(others[how]))
        if dist.is_initialized():
            dist.destroy_process_group()
    return messages


def check_join(path: str) -> list[float]:
    """Ranks with 1, 2, ... batches: divided by those that still have one, as over gloo."""
    torch, dist, rank, _ = start(path)
    from torch.nn.parallel import DistributedDataParallel

    weights = []
    for group in (dist.group.WORLD, dist.new_group(backend="gloo")):
        torch.manual_seed(0)
        net = DistributedDataParallel(torch.nn.Linear(2, 1), process_group=group)
        sgd = torch.optim.SGD(net.parameters(), 0.1)
        with net.join(divide_by_initial_world_size=False):
            for batch in range(rank + 1):
                sgd.zero_grad()
                net(torch.ones(3, 2) * (rank + batch)).square().mean().backward()
                sgd.step()
        weights.append(torch.cat([p.detach().flatten() for p in net.parameters()]))
    dist.destroy_process_group()
    return (weights[0] - weights[1]).abs().tolist()


def check_mismatches(path: str, names: list[str]) -> list[str]:
    """Ranks whose calls differ in something, or bring lists of unequal parts."""
    messages = []
    for name in names:
        torch, dist, rank, size = start(path, timeout=1.0)
        number = torch.ones(4, dtype=(torch.float32, torch.int32)[rank % 2])
        longer, ones = torch.ones(size + 1), [torch.ones(1)] * (size - 1)
        splits = [size] + [0] * (size - 1) if rank else None
        parts = [torch.ones(2 + (rank + r) % size) for r in range(size)]
        op = dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM
        listed = None if rank else [*ones, longer]
        call, *arguments = {
            "dtype": (dist.all_reduce, number),
            "bytes' dtype": (dist.broadcast, number, 0),
            "root": (dist.broadcast, torch.ones(4), rank),
            "collective": ((dist.all_reduce, dist.barrier)[rank], *[torch.ones(4)] * (1 - rank)),
            "operation": (dist.all_reduce, torch.ones(4), op),
            "splits": (dist.all_to_all_single, torch.ones(size), torch.ones(size), None, splits),
            "lengths": (dist.reduce_scatter, torch.empty_like(parts[rank]), parts),
            "scatter": (dist.scatter, torch.ones(1), listed, 0),
            "gather": (dist.gather, torch.ones(1), listed, 0),
            "reduce_scatter": (dist.reduce_scatter, longer, [torch.ones(1)] * size),
            "all_gather": (dist.all_gather, [longer] * size, torch.ones(1)),
        }[name]
        message = told(lambda call=call, arguments=arguments: call(*arguments))
        messages.append(message or told(dist.barrier))  # a root that waits for nobody looks later
        dist.destroy_process_group()
    return messages


def check_tensors_that_are_refused(path: str) -> list[str]:
    """What cannot be written to or reduced is refused before the first message."""
    torch, dist, _, size = start(path)
    quantized = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
    whole = torch.ones(4)
    messages = [
        told(lambda: dist.all_reduce(torch.ones(1).expand(4))),
        told(lambda: dist.all_gather([torch.ones(1).expand(4)] * size, whole)),
        told(lambda: dist.all_reduce(quantized)),
        told(lambda: dist.broadcast(whole, -1)),
    ]
    dist.all_reduce(whole)  # the group is as good as before
    assert whole.tolist() == [size] * 4
    dist.destroy_process_group()
    return messages
