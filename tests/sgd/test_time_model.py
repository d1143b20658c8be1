import pytest

from helpers.sgd.time_model import Point, crossing, speedup
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


def _measure():
    from mpi4py import MPI

    from helpers.datasets import mnist
    from helpers.sgd.time_model import measure

    digits = mnist.load()
    return measure(digits.train_images, digits.train_labels, MPI.COMM_WORLD, batch=4, steps=3)


@pytest.mark.mpi
def test_measured_on_two_ranks():
    one, two = run_ranks(2, _measure)
    assert one == two
    assert one.ranks == 2
    assert 0 < one.alone < 5
    assert one.step > one.synchronize / 10 > 0
