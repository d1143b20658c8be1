"""What a notebook's ranks wait for in torch.distributed is seen, and ends."""

import pytest
import torch
import torch.distributed as dist

import helpers.torch_mpi  # noqa: F401 (registers the backend)
from helpers.cluster import Cluster, RankError, RankTimeoutError
from tests.cluster.ways import PART

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(300)]


def begin():
    torch.set_num_threads(1)
    if dist.is_initialized():
        dist.destroy_process_group()
    dist.init_process_group("mpi4py", init_method="mpi://")


def total():
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    return tensor.tolist()


def alone(call, *arguments):
    if dist.get_rank() == 0:
        getattr(dist, call)(*([torch.ones(3)] if call != "barrier" else []), *arguments)


def later(call):
    if dist.get_rank() == 0:
        getattr(dist, call)(torch.ones(3), async_op=True).wait()


def backward(ranks):
    if not hasattr(dist, "under_test"):
        dist.under_test = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    for _ in range(2 if dist.get_rank() in ranks else 0):
        dist.under_test(torch.ones(2)).sum().backward()


def one_fails():
    if dist.get_rank() == 1:
        raise ArithmeticError("of rank 1")
    return total()


def passed_on(number):
    tensor = torch.full((3,), number)
    if dist.get_rank() == 1:
        dist.send(tensor, 0)
    if dist.get_rank() == 0:
        dist.recv(tensor, 1)
    return tensor.tolist()


@pytest.fixture(scope="module")
def cluster():
    with Cluster(3) as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("function", "arguments", "peer"),
    [
        (alone, ("all_reduce",), "all"),
        pytest.param(alone, ("barrier",), "all", marks=PART),
        (alone, ("recv", 1), 1),
        (later, ("all_reduce",), "all"),
    ],
)
def test_a_wait_is_reported_and_its_group_refuses_further_calls(cluster, function, arguments, peer):
    cluster.run(begin, timeout=120)
    with pytest.raises(RankTimeoutError) as caught:
        cluster.run(function, *arguments, timeout=3)
    assert [(w.rank, w.call, w.peer) for w in caught.value.waits] == [(0, arguments[0], peer)]
    assert "are kept" in str(caught.value)
    if function is alone and peer == "all":
        with pytest.raises(RankError, match="out of step after an interrupt"):
            cluster.run(total, timeout=120)
    cluster.run(begin, timeout=120)
    assert cluster.run(total, timeout=120) == [[3.0] * 3] * 3


def test_a_receive_that_was_interrupted_takes_no_later_message(cluster):
    cluster.run(begin, timeout=120)
    with pytest.raises(RankTimeoutError):
        cluster.run(alone, "recv", 1, timeout=3)
    assert cluster.run(passed_on, 2.0, timeout=120)[0] == [2.0] * 3


def test_ranks_that_wait_for_a_failed_one_are_restarted(cluster):
    cluster.run(begin, timeout=120)
    with pytest.raises(RankError) as caught:
        cluster.run(one_fails, timeout=200)
    assert "of rank 1" in str(caught.value)
    assert "Ranks 0 and 2 waited inside MPI for a rank that had failed" in str(caught.value)
    assert "all_reduce" in str(caught.value)


def test_what_the_backward_of_ddp_waits_for_is_named(cluster):
    cluster.run(begin, timeout=120)
    cluster.run(backward, [0, 1, 2], timeout=120)
    with pytest.raises(RankTimeoutError) as caught:
        cluster.run(backward, [0], timeout=3)
    assert [(w.rank, w.call, w.peer) for w in caught.value.waits] == [(0, "all_reduce", "all")]
