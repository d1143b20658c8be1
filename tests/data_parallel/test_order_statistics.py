import numpy as np
import pytest

from helpers.data_parallel.order_statistics import drawn, expected
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


@pytest.mark.mpi
def test_what_the_notebook_asks_of_its_ranks():
    found = run_ranks(4, stragglers.all_of_it, timeout=120)
    history, dropped = found[0]["backup"]
    assert history.updates == 6
    assert history.gradients == 12
    assert history.seconds[-1] > 6 * 0.002
    assert dropped >= 0
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
