import functools

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.nn import functional

from helpers.data_parallel import schemes
from helpers.data_parallel.schemes import (
    DDP,
    ByFunction,
    LocalSGD,
    MPIAllreduce,
    PerTensor,
    Ring,
    Server,
)
from helpers.data_parallel.tasks import lenet, ranks
from helpers.data_parallel.tasks.lenet import digits, judged_once
from helpers.data_parallel.tasks.sampling import batches, from_shards, positions
from helpers.datasets import mnist
from helpers.models.lenet import LeNet, accuracy_of
from tests.mpi.runner import run_ranks
from tests.mpi.several import on_ranks

STEPS = 40


def all_exact(steps: int, batch: int) -> dict[str, np.ndarray]:
    """Weights after ``steps`` by every scheme that averages gradients, on every rank."""
    mine = functools.partial(ByFunction, function=_mean_by_hand)
    settings = {"steps": steps, "batch": batch, "rate": 0.02, "double": True}
    schemes = (Ring, MPIAllreduce, PerTensor, DDP, mine, functools.partial(LocalSGD, period=1))
    histories = [lenet.train(scheme, **settings) for scheme in schemes]
    dist.destroy_process_group()
    return {history.scheme: history.weights for history in histories}


def _mean_by_hand(model):
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
        parameter.grad /= dist.get_world_size()


def with_server(steps: int, batch: int) -> np.ndarray:
    return lenet.train(Server, ranks(), steps=steps, batch=batch, rate=0.02, double=True).weights


def same_and_divided(steps: int):
    """Weights of replicas that see the same batches, or parts of them; and of one process."""
    same = lenet.train(MPIAllreduce, ranks(), steps=steps, batch=8, divide=False).weights
    divided = lenet.train(MPIAllreduce, ranks(), steps=steps, batch=8).weights
    return same, divided, lenet.alone(steps=steps, batch=8)


def judged() -> tuple[float, float]:
    """Of weights that are rank 0's but on rank 2: the accuracy as told, and as counted here."""
    weights = torch.cat([p.detach().flatten() for p in LeNet(seed=1).parameters()]).numpy()
    if ranks().Get_rank() == 2:
        weights[-10:] = 1e3 * np.arange(10)  # it takes every digit for a nine
    return judged_once(weights, ranks()), accuracy_of(weights, digits())


@pytest.fixture(scope="module")
def one_process():
    """Steps of one process with batch 12, in plain PyTorch and double precision."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # on busy cores, threads that spin for one another take for ever
    digits, model = mnist.load(), LeNet(seed=0).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    chosen = positions(4000, 12, 0, 1, 0)
    for _ in range(STEPS):
        where = next(chosen)
        optimizer.zero_grad()
        scores = model(torch.from_numpy(digits.train_images[where]).double())
        functional.cross_entropy(scores, torch.from_numpy(digits.train_labels[where])).backward()
        optimizer.step()
    torch.set_num_threads(threads)
    return torch.cat([p.detach().flatten() for p in model.parameters()]).numpy()


@pytest.fixture(scope="module")
def three():
    return on_ranks(3, (all_exact, STEPS, 4), (with_server, STEPS, 6), (judged,))


@pytest.fixture(scope="module")
def two():
    return run_ranks(2, same_and_divided, 10)


@pytest.mark.mpi
def test_three_replicas_of_batch_4_are_one_process_of_batch_12(one_process, three):
    """Six schemes: the same weights, but for the rounding of sums in another order."""
    kinds = ("ours", "mpi", "torch", "ddp", "_mean_by_hand")  # a reader's has its name
    for found in three[0]:
        assert list(found) == [*(f"synchronous, {kind}" for kind in kinds), "local SGD, H = 1"]
        for way, weights in found.items():
            assert np.abs(weights - one_process).max() < 1e-12, way
            assert np.array_equal(weights, three[0][0][way]), f"{way}: replicas differ"


@pytest.mark.mpi
def test_a_server_and_two_workers_are_one_process_too(one_process, three):
    for weights in three[1]:
        assert np.abs(weights - one_process).max() < 1e-12


@pytest.mark.mpi
def test_each_rank_is_told_the_accuracy_of_its_own_weights(three):
    found = three[2]
    assert all(told == counted for told, counted in found), found
    assert found[0] == found[1] != found[2]


@pytest.mark.mpi
def test_the_same_data_on_every_rank_is_one_process(two):
    same, divided, single = two[0]
    assert np.allclose(same, single.weights, atol=1e-5)
    assert not np.allclose(divided, single.weights, atol=1e-4)
    assert (single.scheme, single.updates, single.gradients) == ("one process", 10, 10)
    assert two[1][2] is None


def test_global_batches_do_not_depend_on_the_number_of_ranks():
    alone = positions(100, 12, 0, 1, seed=3)
    together = [positions(100, 4, rank, 3, seed=3) for rank in range(3)]
    for _ in range(20):
        assert np.array_equal(next(alone), np.concatenate([next(part) for part in together]))
    epoch = positions(100, 10, 0, 1, seed=0)
    seen = np.concatenate([next(epoch) for _ in range(10)])
    assert np.array_equal(np.sort(seen), np.arange(100))


@pytest.mark.parametrize(("batch", "rank", "ranks"), [(0, 0, 1), (4, 2, 2), (51, 0, 2)])
def test_batches_that_do_not_fit(batch, rank, ranks):
    with pytest.raises(ValueError, match=str(batch)):
        next(positions(100, batch, rank, ranks, seed=0))


def _shard(count, part, parts, epoch):
    return [(place + 100 * epoch) for place in range(part, count, parts)]


def test_a_shard_of_ones_own_is_cut_into_batches_epoch_by_epoch():
    for count in (8, 10):  # of five samples the last is left over
        chosen = from_shards(count, 2, 1, 2, _shard)
        assert [next(chosen).tolist() for _ in range(3)] == [[1, 3], [5, 7], [101, 103]]
    with pytest.raises(ValueError, match="batches of 6 do not fit the 5 samples of rank 0 of 2"):
        next(from_shards(10, 6, 0, 2, _shard))
    images, labels = np.arange(20.0).reshape(10, 2), np.arange(10)
    x, y = next(batches(images, labels, 3, 0, 2, shard=_shard))
    assert y.tolist() == [0, 2, 4]
    assert x.tolist() == images[[0, 2, 4]].tolist()


def _measure():
    with pytest.raises(ValueError, match="pigeon"):
        lenet.time_model(2, (4,), link="pigeon")
    ways = (("LeNet", "memory"), ("perceptron", "TCP"))
    return [lenet.time_model(2, (4,), network, link, steps=3) for network, link in ways]


def watch(scheme: str, steps: int):
    return lenet.computing(getattr(schemes, scheme), steps=steps, batch=2, momentum=0.0)


@pytest.fixture(scope="module")
def timed():
    calls = (_measure,), (watch, "MPIAllreduce", 6), (watch, "Asynchronous", 6)
    return on_ranks(3, *calls)


@pytest.mark.mpi
def test_measured_on_two_ranks_of_three(timed):
    one, two, three = timed[0]
    assert one == two
    assert three == [[], []]
    for (point,), name in zip(one, ("LeNet, memory", "perceptron, TCP"), strict=True):
        assert (point.ranks, point.batch, point.name) == (2, 4, name)
        assert point.alone > 0
        assert point.step > point.synchronize / 10 > 0


@pytest.mark.mpi
@pytest.mark.parametrize("asynchronous", [False, True])
def test_who_computes_when_is_noted_on_each_rank(timed, asynchronous):
    everyone = timed[1 + asynchronous]
    spans = [span for rank in everyone for span in rank]
    assert min(begin for begin, _ in spans) == 0
    assert all(begin < end for begin, end in spans)
    assert [bool(rank) for rank in everyone] == [not asynchronous, True, True]
    if not asynchronous:
        assert {len(rank) for rank in everyone} == {6}
