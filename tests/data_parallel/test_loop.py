import numpy as np
import pytest

from tests.data_parallel import ranks
from tests.mpi.runner import run_ranks


@pytest.fixture(scope="module")
def new_schemes():
    return run_ranks(2, ranks.new_schemes, 140, timeout=150)


@pytest.mark.mpi
def test_local_sgd_with_period_1_is_sgd_in_step():
    """With plain SGD the mean of the moved parameters is the parameters moved by the mean.

    For a few steps: rounding differs, and training multiplies what differs.
    """
    for found in run_ranks(2, ranks.new_schemes, 20):
        assert np.abs(found["H = 1"].weights - found["mpi"].weights).max() < 1e-6
        assert np.abs(found["H = 7"].weights - found["mpi"].weights).max() > 1e-5
        assert np.allclose(found["H = 1"].losses, found["mpi"].losses, atol=1e-5)


@pytest.mark.mpi
def test_local_sgd_drifts_between_averages_and_learns(new_schemes):
    first, second = (found["H = 7"] for found in new_schemes)
    assert first.scheme == "local SGD, H = 7"
    assert np.array_equal(first.weights, second.weights)  # 140 steps end with an average
    assert np.abs(first.weights - new_schemes[0]["mpi"].weights).max() > 1e-4
    assert np.mean(first.losses[-10:]) < 0.9 * np.mean(first.losses[:10])


@pytest.mark.mpi
def test_qsgd_keeps_replicas_equal_and_learns(new_schemes):
    first, second = (found["QSGD"] for found in new_schemes)
    assert first.scheme == "QSGD, 64 levels"
    assert np.array_equal(first.weights, second.weights)
    assert not np.array_equal(first.weights, new_schemes[0]["mpi"].weights)
    assert np.mean(first.losses[-10:]) < 0.9 * np.mean(first.losses[:10])


@pytest.mark.mpi
def test_hooks_in_their_order():
    (told,) = run_ranks(1, ranks.hooks, timeout=120)
    step = ["before_backward", "loss", "after_backward", "update", "after_step"]
    assert told == ["begin", *step, *step, "end"]


@pytest.mark.mpi
def test_someone_elses_model_optimizer_and_loader():
    """48 samples in batches of 4: an epoch is 4 steps of 3 workers, 6 of 2."""
    results = run_ranks(3, ranks.by_a_loader, 2, timeout=170)
    for name, updates, gradients in (
        ("synchronous, mpi", 4, 12),
        ("synchronous, server", 6, 12),
        ("asynchronous", 24, 24),  # two epochs of 6 batches from each of two workers
    ):
        histories, biases = zip(*(found[name] for found in results), strict=True)
        for history in histories:
            assert (history.updates, history.gradients, history.batch) == (updates, gradients, 4)
            assert np.array_equal(history.weights, histories[0].weights)
        assert biases == (biases[0],) * 3  # frozen, and yet rank 0's everywhere
    assert results[0]["asynchronous"][0].report == ["the server stopped: no worker left"]


@pytest.mark.mpi
def test_a_stop_ends_its_own_run_and_no_other():
    ended = ["3 updates", "5 updates", "3 updates", "2 updates"]
    assert run_ranks(2, ranks.a_scheme_again, timeout=120) == [ended] * 2


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("n", "scheme", "listed", "updates"),
    [
        (2, "MPIAllreduce", (), 10),
        (2, "MPIAllreduce", (0,), 10),
        (2, "MPIAllreduce", (1,), 10),
        (3, "Server", (), 15),  # rank 0, which serves, has the fewest
    ],
)
def test_in_step_the_first_without_a_batch_ends_all(n, scheme, listed, updates):
    found = run_ranks(n, ranks.batches_that_end, scheme, listed, timeout=60)
    assert found == [(f"{updates} updates", updates)] * n


@pytest.mark.mpi
def test_a_bucket_that_no_backward_pass_fills_travels_all_the_same():
    for by_mpi, by_buckets in run_ranks(2, ranks.unused_layer, timeout=120):
        assert np.array_equal(by_mpi, by_buckets)
