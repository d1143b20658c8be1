"""Collectives inside the callbacks of futures: they end, and in the same order on every rank."""

import functools
import threading
import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from mpi4py import MPI
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power
from torch.nn.parallel import DistributedDataParallel

from tests.cluster.ways import PART
from tests.mpi.runner import run_ranks
from tests.torch_mpi.ranks import start

pytestmark = pytest.mark.mpi


def check_callbacks(path: str) -> None:
    """Sums called in callbacks: waited for or not, on their thread or not, one in another's."""
    rank, size = start(path, timeout=20.0)

    def total(value: float, later: bool = False, n: int = 5):
        tensor = torch.full((n,), value)
        return dist.all_reduce(tensor, async_op=later), tensor

    def sync(future):
        time.sleep(0.01 * rank)  # ranks come to it at different times
        _, tensor = total(future.value()[0][0].item())
        return [tensor]

    def waited(future):
        work, tensor = total(future.value()[0][0].item(), later=True)
        work.wait()
        return [tensor]

    def by_its_future(future):
        work, _ = total(future.value()[0][0].item(), later=True)
        return [work.get_future().then(sync).wait()[0]]  # a callback's callback

    def left_alone(future):
        total(1.0, later=True)
        return future.value()

    for callback, times in ((sync, 2), (waited, 2), (by_its_future, 3), (left_alone, 1)):
        for n in (5, 200_000):
            work, _ = total(1.0, later=True, n=n)
            result = work.get_future().then(callback)
            between, tensor = total(10.0, later=True)  # called before the callback's, or after
            assert result.wait()[0][0] == size**times, callback.__name__
            between.wait()
            assert tensor[0] == 10 * size
            _, tensor = total(100.0)  # and one on this thread
            assert tensor[0] == 100 * size
    first, _ = total(1.0, later=True)
    time.sleep(0.1)  # it has ended: its callback runs here
    assert first.get_future().then(sync).wait()[0][0] == size**2
    dist.destroy_process_group()


def check_order(path: str) -> None:
    """Many operations, each with a callback that reduces: as if one after the other."""
    rank, size = start(path, timeout=20.0)

    def again(k, future):
        time.sleep(0.002 * ((rank + k) % size))
        tensor = torch.full((7,), float(1000 + k))  # as long as the others: nothing else tells
        dist.all_reduce(tensor)
        return float(tensor[0])

    pending, expected = [], []
    for k in range(30):
        tensor = torch.full((7,), float(k))
        future = dist.all_reduce(tensor, async_op=True).get_future()
        pending.append((future.then(functools.partial(again, k)), tensor))
        time.sleep(0.001 * ((rank * 7 + k) % 3))
        expected.append((float(size * (1000 + k)), float(size * k)))
    assert [(future.wait(), float(tensor[0])) for future, tensor in pending] == expected
    dist.destroy_process_group()


def check_later(path: str) -> None:
    """A callback that waits for an operation called after its own."""
    _, size = start(path, timeout=20.0)
    comm, main = MPI.COMM_WORLD.Dup(), threading.get_ident()
    for _ in range(20):
        late, early, begun = [], [], torch.futures.Future()
        second = torch.full((4,), 2.0)

        def wait_for_second(future, late=late, early=early, begun=begun, second=second):
            if threading.get_ident() == main:  # the operation has ended before ``then``
                early.append(True)
            elif begun.wait():  # the second has been called
                late[0].wait()
                after = torch.ones(2)
                dist.all_reduce(after)
                return float(after[0]) + float(second[0])

        slow = dist.all_reduce(torch.ones(3_000_000), async_op=True)
        result = slow.get_future().then(wait_for_second)
        tried = not comm.allreduce(bool(early), MPI.LOR)
        if tried:
            late.append(dist.all_reduce(second, async_op=True))
        begun.set_result(tried)
        assert result.wait() == ((1 + 2) * size if tried else None)
        if tried:
            break
    assert tried
    dist.destroy_process_group()


def check_power_sgd(path: str) -> tuple[float, float]:
    """DDP with PowerSGD's hook: against gloo, and with a bucket for each layer."""
    rank, size = start(path, timeout=30.0)

    def train(group, bucket_mb: float):
        torch.manual_seed(0)
        net = torch.nn.Sequential(
            torch.nn.Linear(24, 48), torch.nn.Tanh(), torch.nn.Linear(48, 48), torch.nn.Tanh()
        )
        ddp = DistributedDataParallel(net, process_group=group, bucket_cap_mb=bucket_mb)
        state = power.PowerSGDState(group, matrix_approximation_rank=2, start_powerSGD_iter=3)
        ddp.register_comm_hook(state, power.powerSGD_hook)
        optimizer = torch.optim.SGD(ddp.parameters(), 0.05)
        data = torch.Generator().manual_seed(rank)
        for _ in range(12):
            optimizer.zero_grad()
            x = torch.randn(8, 24, generator=data)
            loss = (ddp(x) - x.repeat(1, 2)).square().mean()
            loss.backward()
            optimizer.step()
        return torch.cat([p.detach().flatten() for p in net.parameters()])

    gloo = dist.new_group(backend="gloo", timeout=timedelta(seconds=30))
    ours = train(dist.group.WORLD, 25)
    theirs = train(gloo, 25)
    many = train(dist.group.WORLD, 0.001)  # several buckets: their callbacks interleave
    everyone = [torch.empty_like(many) for _ in range(size)]
    dist.all_gather(everyone, many)
    apart = max(float((one - many).abs().max()) for one in everyone)
    dist.destroy_process_group()
    return float((ours - theirs).abs().max()), apart


@pytest.mark.parametrize(
    ("path", "n"), [pytest.param("window", 2, marks=PART), ("window", 3), ("network", 3)]
)
def test_callbacks_call_collectives_and_wait_for_them(path, n):
    run_ranks(n, check_callbacks, path, timeout=90)


@pytest.mark.parametrize("path", ["window", "network"])
def test_what_callbacks_call_comes_before_what_was_called_since(path):
    run_ranks(3, check_order, path, timeout=90)


def test_a_callback_waits_for_an_operation_called_after_its_own():
    run_ranks(2, check_later, "window", timeout=60)


@pytest.mark.parametrize("path", ["window", "network"])
def test_power_sgd_trains_as_over_gloo(path):
    for difference, apart in run_ranks(2, check_power_sgd, path, timeout=120):
        assert difference < 1e-6
        assert apart == 0.0
