"""Ranks that do different things are told so, by an exception."""

import time

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.cluster.ways import PART
from tests.mpi.runner import run_ranks
from tests.mpi.several import told
from tests.torch_mpi.ranks import start

pytestmark = pytest.mark.mpi
PATHS = ["window", pytest.param("network", marks=PART)]


def check_backward(path: str) -> list[str]:
    """Rank 0 has one batch less than the others, and then does something else."""
    messages = []
    for how in range(4):
        rank, _ = start(path, timeout=3.0)  # more than network.GRACE
        net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))

        def train(batches: int, net=net) -> None:
            for _ in range(batches):
                net(torch.ones(2)).sum().backward()

        others = [
            dist.barrier,
            lambda: dist.all_reduce(torch.ones(1)),
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
    rank, _ = start(path)

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
    # If the net held gloo's group last, freeing it would join gloo's thread without releasing the
    # interpreter, for which that thread may wait.
    del net
    dist.destroy_process_group()
    return (weights[0] - weights[1]).abs().tolist()


def check_mismatches(path: str, names: list[str]) -> list[str]:
    """Ranks whose calls differ in something, or bring lists of unequal parts."""
    messages = []
    for name in names:
        rank, size = start(path, timeout=1.0)
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
    _, size = start(path)
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


@pytest.mark.parametrize("path", PATHS)
def test_an_error_inside_the_backward_of_ddp_is_an_exception(path):
    first, second = run_ranks(2, check_backward, path, timeout=60)
    assert "called all_reduce of 12 bytes of torch.float32 with SUM while rank 0" in second[0]
    assert "called barrier" in second[0]
    assert "while rank 0 called all_reduce of 4 bytes" in second[1]
    assert all(first[:2])
    assert "rank 0 of this group has left it" in second[2]
    assert "Timed out after 3 s" in second[3]
    assert not any(first[2:])


@pytest.mark.parametrize("path", PATHS)
def test_join_divides_by_the_ranks_that_still_have_a_batch(path):
    for apart in run_ranks(3, check_join, path, timeout=60):
        assert max(apart) < 1e-6


@pytest.mark.parametrize("path", ["window", "network"])
def test_calls_that_differ_between_ranks_raise_on_each(path):
    names = ["dtype", "bytes' dtype", "operation", "splits", "lengths", "root", "collective"]
    first, second = run_ranks(2, check_mismatches, path, names, timeout=60)
    for messages in (first, second):
        assert "all_reduce of 16 bytes of torch.int32" in messages[0]
        assert "with MAX" in messages[2]
        assert "rank 1 sends 8 bytes to rank 0, which expects 4 from it" in messages[3]
        assert "broadcast of 16 bytes of torch.int32" in messages[1]
        assert "in unequal parts" in messages[4]
        assert "torch.float32, root 0" in messages[5]
        assert "root 1" in messages[5]
        assert "all_reduce of 16 bytes" in messages[6]
        assert "called barrier" in messages[6]


def test_lists_of_unequal_parts_are_refused():
    names = ["scatter", "gather", "reduce_scatter", "all_gather"]
    first, _ = run_ranks(2, check_mismatches, "window", names, timeout=60)
    for name, message in zip(names, first, strict=True):
        assert message.startswith(f"ValueError: {name} on rank 0 expects")
        assert "elements, as (" in message


@pytest.mark.parametrize("path", ["window", "network"])
def test_tensors_that_cannot_be_written_to_or_reduced_are_refused(path):
    for one, several, quantized, root in run_ranks(2, check_tensors_that_are_refused, path):
        assert "a place for each element; got an expanded one, (4,) of torch.float32" in one
        assert "an expanded one" in several
        assert "got (3,) of torch.qint8" in quantized
        assert "broadcast expects a root from 0 to 1; got -1" in root
