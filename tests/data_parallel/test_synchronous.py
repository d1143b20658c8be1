import numpy as np
import pytest

from helpers.data_parallel.history import History
from helpers.data_parallel.sampling import batches, from_shards, positions
from helpers.datasets import mnist
from tests.data_parallel import ranks
from tests.mpi.runner import run_ranks


@pytest.fixture(scope="module")
def one_process():
    """100 steps of one process with batch 12, in plain PyTorch."""
    import torch
    from torch.nn import functional

    from helpers.models.lenet import LeNet

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # on busy cores, threads that spin for one another take for ever
    digits, model = mnist.load(), LeNet(seed=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    chosen = positions(4000, 12, 0, 1, 0)
    for _ in range(100):
        where = next(chosen)
        optimizer.zero_grad()
        scores = model(torch.from_numpy(digits.train_images[where]))
        functional.cross_entropy(scores, torch.from_numpy(digits.train_labels[where])).backward()
        optimizer.step()
    torch.set_num_threads(threads)
    return torch.cat([p.detach().flatten() for p in model.parameters()]).numpy()


@pytest.mark.mpi
def test_three_replicas_of_batch_4_are_one_process_of_batch_12(one_process):
    """100 steps, six schemes: the same weights, to what float32 forgets in 100 steps."""
    per_rank = run_ranks(3, ranks.all_exact, 100, 4, timeout=170)
    scale = np.abs(one_process).max()
    kinds = ("ours", "mpi", "torch", "ddp", "buckets", "_mean_by_hand")  # a reader's has its name
    for found in per_rank:
        assert list(found) == [f"synchronous, {kind}" for kind in kinds]
        for way, weights in found.items():
            assert np.abs(weights - one_process).max() < 2e-3 * scale, way
            assert np.array_equal(weights, per_rank[0][way]), f"{way}: replicas differ"


@pytest.mark.mpi
def test_a_server_and_three_workers_are_one_process_too(one_process):
    for weights in run_ranks(4, ranks.synchronous_with_server, 100, 4, timeout=170):
        assert np.abs(weights - one_process).max() < 2e-3 * np.abs(one_process).max()


@pytest.mark.mpi
def test_lenet_on_four_ranks_reaches_95_percent():
    accuracies = run_ranks(4, ranks.train_to_accuracy, 375, timeout=170)
    assert accuracies == [accuracies[0]] * 4
    assert accuracies[0] >= 0.95


@pytest.mark.mpi
def test_on_two_ranks_the_order_of_adding_does_not_matter_and_all_have_the_same_bits():
    for found in run_ranks(2, ranks.all_exact, 20, 4, timeout=170):
        for way, weights in found.items():
            assert np.array_equal(weights, found["synchronous, mpi"]), way


@pytest.mark.mpi
def test_bad_calls_are_refused_with_what_was_passed():
    (messages,) = run_ranks(1, ranks.bad_calls, timeout=120)
    expected = ("got 1", "got 1", "'pigeons'", "init_process_group", "5000", "got 0.5", "list_iter")
    for message, part in zip(messages, expected, strict=True):
        assert part in message


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


def test_smoothing_averages_the_last_updates():
    history = History("x", 1, 1)
    for loss in (4.0, 2.0, 0.0):
        history.record(1.0, loss)
    assert history.smooth(2).tolist() == [4.0, 3.0, 1.0]
    with pytest.raises(ValueError, match="0"):
        history.smooth(0)


def test_buckets_cut_the_model_from_its_end():
    from helpers.data_parallel.schemes import Buckets
    from helpers.data_parallel.schemes.buckets import cut
    from helpers.models.lenet import LeNet

    assert len(cut(LeNet(), nbytes=1)) == 10
    assert len(cut(LeNet(), nbytes=1 << 30)) == 1
    assert cut(LeNet(), nbytes=1)[0][0].shape == (10,)  # the last layer's bias
    with pytest.raises(ValueError, match="0"):
        Buckets(None, nbytes=0)


def _shard(count, part, parts, epoch):
    return [(place + 100 * epoch) for place in range(part, count, parts)]


def test_a_shard_of_ones_own_is_cut_into_batches_epoch_by_epoch():
    chosen = from_shards(10, 2, 1, 2, _shard)
    assert [next(chosen).tolist() for _ in range(3)] == [[1, 3], [5, 7], [101, 103]]


def test_a_shard_with_no_batch_in_it_is_refused():
    with pytest.raises(ValueError, match="batches of 6 do not fit the 5 samples of rank 0 of 2"):
        next(from_shards(10, 6, 0, 2, _shard))


def test_batches_of_a_shard_hold_its_samples():
    images, labels = np.arange(20.0).reshape(10, 2), np.arange(10)
    x, y = next(batches(images, labels, 3, 0, 2, shard=_shard))
    assert y.tolist() == [0, 2, 4]
    assert x.tolist() == images[[0, 2, 4]].tolist()
