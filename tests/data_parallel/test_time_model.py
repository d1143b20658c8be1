import pytest

from helpers.data_parallel.time_model import Point, crossing, fit, speedup
from tests.mpi.runner import run_ranks


def point(ranks: int, alone: float, synchronize: float) -> Point:
    step = alone + synchronize
    return Point(ranks, 8, alone, alone, synchronize, step)


@pytest.mark.parametrize("ranks", [2, 3, 8])
@pytest.mark.parametrize("ratio", [0.01, 0.5, 0.99, 1.01, 5.0, 20.0])
def test_the_inequality_says_when_the_speedup_passes_one(ranks, ratio):
    case = point(ranks, 1.0, ratio)
    assert case.pays == (case.predicted > 1)
    assert case.predicted == pytest.approx(case.measured)


def test_crossing_lies_where_the_ratio_is_the_number_of_helpers():
    batches = [1.0, 2.0, 4.0, 8.0]
    ratios = [3 / b for b in batches]  # T_comp grows with B, T_sync does not
    assert crossing(batches, ratios, 2) == pytest.approx(3.0)
    assert crossing(batches, ratios, 3) == pytest.approx(1.5)
    assert crossing(batches, ratios, 100) is None
    assert crossing(batches, ratios, 1) is None


@pytest.mark.parametrize("bad", [(0, 1.0, 1.0), (2, 0.0, 1.0), (2, 1.0, -1.0)])
def test_impossible_times(bad):
    with pytest.raises(ValueError, match=str(bad[1])):
        speedup(*bad)


def test_fit_finds_the_line_that_the_points_lie_on():
    points = [Point(2, b, 2e-3 + 1e-4 * b, 0.0, t, 0.0) for b, t in ((1, 3e-3), (8, 4e-3), (64, 9))]
    assert fit(points) == pytest.approx((2e-3, 1e-4, 4e-3))
    with pytest.raises(ValueError, match="two batch sizes"):
        fit(points[:1] * 2)


def _measure():
    from helpers.data_parallel import runs

    with pytest.raises(ValueError, match="pigeon"):
        runs.time_model(2, (4,), link="pigeon")
    ways = (("LeNet", "memory"), ("perceptron", "TCP"))
    return [runs.time_model(2, (4,), network, link, steps=3) for network, link in ways]


@pytest.mark.mpi
def test_measured_on_two_ranks_of_three():
    one, two, three = run_ranks(3, _measure, timeout=120)
    assert one == two
    assert three == [[], []]
    for (point,), name in zip(one, ("LeNet, memory", "perceptron, TCP"), strict=True):
        assert (point.ranks, point.batch, point.name) == (2, 4, name)
        assert point.alone > 0
        assert point.step > point.synchronize / 10 > 0
