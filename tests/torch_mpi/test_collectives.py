"""The collectives without ranks: on a transport that answers as two ranks with equal data would."""

import threading

import pytest
import torch
import torch.distributed as dist

from helpers.torch_mpi.collectives import Collectives
from helpers.torch_mpi.runner import Runner
from helpers.torch_mpi.transport import Transport


class Twins(Transport):
    """Rank 0 of two, whose other rank brings the same; keeps the name of what it was asked."""

    kind, rank, size = "twins", 0, 2

    def __init__(self):
        self.call, self.patient, self.seen = "", False, []

    def close(self):
        self.closed = True

    def departed(self):
        return []

    def barrier(self, deadline):
        self.seen.append((self.call, threading.current_thread().name))

    def all_reduce(self, flat, op, deadline):
        self.barrier(deadline)
        op.fold([flat.clone(), flat.clone()], flat)

    def all_gather(self, outputs, data, deadline):
        for output in outputs:
            output.copy_(data)


@pytest.fixture
def group():
    transport = Twins()
    group = Collectives("twins", dist.HashStore(), transport, Runner("twins", transport, 5.0))
    yield group
    group._runner.close()


def test_operations_need_a_transport_and_a_runner_alone(group):
    tensor = torch.arange(6.0).reshape(2, 3).T  # neither flat nor contiguous
    assert group.allreduce([tensor]).wait()
    assert torch.equal(tensor, 2 * torch.arange(6.0).reshape(2, 3).T)
    joined = torch.zeros(4)
    group.all_gather_single(joined, torch.tensor([1.0, 2.0]))
    assert joined.tolist() == [1, 2, 1, 2]
    assert (group.rank(), group.size(), group.getGroupName()) == (0, 2, "twins")
    assert group._get_sequence_number_for_group() == 2
    with pytest.raises(ValueError, match=r"expects a list of 2 tensors.*got 3"):
        group.allgather([[torch.zeros(1)] * 3], [torch.zeros(1)])


def test_only_what_is_asked_for_later_runs_on_the_thread(group):
    options = torch._C._distributed_c10d.AllreduceOptions()
    options.asyncOp = True
    group.allreduce([torch.ones(2)])
    group.allreduce([torch.ones(2)], options).wait()
    names = [name for _, name in group.transport.seen]
    assert names == [threading.current_thread().name, "torch_mpi twins"]


def test_a_callback_may_wait_for_its_own_collective_and_comes_before_what_follows(group):
    options = torch._C._distributed_c10d.AllreduceOptions()
    options.asyncOp = True
    transport, order, gate = group.transport, [], threading.Event()
    reduce = transport.all_reduce

    def slow(flat, op, deadline):
        gate.wait(5)
        order.append(flat[0].item())
        reduce(flat, op, deadline)

    transport.all_reduce = slow

    def again(future):
        work = group.allreduce([torch.tensor([10.0])], options)
        return work.get_future().wait()[0].item()

    first = group.allreduce([torch.tensor([1.0])], options).get_future().then(again)
    last = group.allreduce([torch.tensor([100.0])], options)
    ended = threading.Event()
    first.add_done_callback(lambda future: ended.set())
    gate.set()
    assert ended.wait(30), "a deadlock"  # a future's own wait would never end
    assert first.wait() == 20.0
    last.wait()
    assert order == [1.0, 10.0, 100.0]


def test_an_error_breaks_the_group_and_is_in_the_future(group):
    def fails(flat, op, deadline):
        raise TimeoutError("rank(s) 1 did not arrive")

    group.transport.all_reduce = fails
    options = torch._C._distributed_c10d.AllreduceOptions()
    options.asyncOp = True
    work = group.allreduce([torch.ones(1)], options)
    with pytest.raises(RuntimeError, match="Timed out after 5 s on rank 0: rank"):
        work.wait()
    with pytest.raises(RuntimeError, match="Timed out"):
        work.get_future().wait()
    with pytest.raises(dist.DistBackendError, match="out of step after a time-out"):
        group.barrier()
