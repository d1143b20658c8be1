import numpy as np
import pytest

from helpers.data_parallel.order_statistics import drawn, expected, of_sample
from helpers.data_parallel.straggler_runs import sample
from tests.data_parallel import stragglers
from tests.mpi.runner import run_ranks


@pytest.mark.parametrize(("needed", "workers"), [(1, 1), (3, 3), (3, 5), (1, 8)])
def test_the_nth_of_w_draws(needed, workers):
    seconds = [
        sorted(drawn(0.5, 2.0, 1, rank)(step) for rank in range(workers))[needed - 1]
        for step in range(3000)
    ]
    assert np.mean(seconds) == pytest.approx(expected(needed, workers, 0.5, 2.0), rel=0.06)


def test_what_cannot_be_is_refused():
    for needed, workers in ((0, 3), (4, 3)):
        with pytest.raises(ValueError, match=f"got {needed} and {workers}"):
            expected(needed, workers, 0.0, 1.0)
    assert drawn(0.1, 1.0, 0, 1)(5) == drawn(0.1, 1.0, 0, 1)(5) != drawn(0.1, 1.0, 0, 2)(5)


def test_the_nth_of_what_was_measured():
    times = np.array([[1.0, 4.0, 2.0], [9.0, 3.0, 6.0]])
    assert [of_sample(times, n) for n in (1, 2, 3)] == [2.0, 4.0, 6.5]
    law = np.random.default_rng(0).exponential(size=(20_000, 4))
    assert of_sample(law, 3) == pytest.approx(expected(3, 4, 0.0, 1.0), rel=0.03)
    for needed in (0, 4):
        with pytest.raises(ValueError, match=f"got {needed} and 3 workers"):
            of_sample(times, needed)
    for wrong in (np.ones(3), np.ones((0, 3))):
        with pytest.raises(ValueError, match="expected times"):
            of_sample(wrong, 1)


def assert_real_stragglers(waits_for_all, for_two):
    """Of rank 0, for b = 0 and b = 1."""
    times = sample(waits_for_all)
    assert times.shape == (12, 3)
    assert times.min() >= 5e-3  # the pace
    longest = of_sample(times, 3)
    assert longest < waits_for_all.seconds < longest + 1  # the rest is one update
    assert waits_for_all.dropped == 0
    assert for_two.history.gradients == 24
    assert [len(one) for one in for_two.arrivals] == [2] * 12
    if for_two.dropped:
        with pytest.raises(ValueError, match=f"{for_two.dropped} gradients dropped"):
            sample(for_two)


@pytest.mark.mpi
def test_what_the_notebook_asks_of_its_ranks():
    found = run_ranks(4, stragglers.all_of_it, timeout=120)
    run = found[0]["backup"]
    assert run.history.updates == 6
    assert run.history.gradients == 12
    assert run.seconds == run.history.seconds[-1] / 6 > 0.002
    assert run.dropped >= 0
    assert_real_stragglers(*found[0]["beside"])
    with pytest.raises(ValueError, match="expected rank 0's run"):
        sample(found[1]["beside"][0])
    assert all(rank["cores"] for rank in found)
    for kind in ("bias", "cures", "accuracy", "exchange"):
        assert found[0][kind] == found[1][kind] or kind in ("accuracy", "bias")
    assert found[0]["accuracy"][0] == 10
    assert found[1]["accuracy"][0] == 10
    assert all(0 <= accuracy <= 1 for accuracy, _ in found[0]["cures"])
    assert found[0]["exchange"] > 0
    assert found[0]["hook"] > 0
    assert found[0]["accuracy of a scheme"] == 10
    assert found[0]["sent"] == {
        "float32": 2 * 3 / 4 * 4 * 640,
        "top 0.01, feedback": 3 * 8 * 6,  # 6 of 640, to three others
        "PowerSGD, r = 2": 2 * 3 / 4 * 4 * (2 * (30 + 20) + 40),
    }
    assert "'zip'" in found[0]["refused"]
