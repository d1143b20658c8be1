"""What is predicted: the time model, order statistics, how far replicas drift."""

import numpy as np
import pytest

from helpers.data_parallel.schemes.gossip import mixing, spectral_gap
from helpers.data_parallel.theory import drift
from helpers.data_parallel.theory.order_statistics import drawn, expected, of_sample
from helpers.data_parallel.theory.time_model import Point, crossing_batch, fit, link_time, speedup


def point(ranks: int, alone: float, synchronize: float) -> Point:
    step = alone + synchronize
    return Point(ranks, 8, alone, alone, synchronize, step)


@pytest.mark.parametrize("ranks", [2, 3, 8])
@pytest.mark.parametrize("ratio", [0.01, 0.5, 0.99, 1.01, 5.0, 20.0])
def test_the_inequality_says_when_the_speedup_passes_one(ranks, ratio):
    case = point(ranks, 1.0, ratio)
    assert (case.predicted > 1) == (ratio < ranks - 1)
    assert case.predicted == pytest.approx(case.measured)


def test_crossing_lies_where_the_ratio_is_the_number_of_helpers():
    batches = [1.0, 2.0, 4.0, 8.0]
    ratios = [3 / b for b in batches]  # T_comp grows with B, T_sync does not
    assert crossing_batch(batches, ratios, 2) == pytest.approx(3.0)
    assert crossing_batch(batches, ratios, 3) == pytest.approx(1.5)
    assert crossing_batch([1, 2, 4, 8], [2.0, 0.5, 2.0, 0.5], 2) == pytest.approx(32**0.5)  # last
    assert crossing_batch(batches, ratios, 100) is None
    assert crossing_batch(batches, ratios, 1) is None


@pytest.mark.parametrize("bad", [(0, 1.0, 1.0), (2, 0.0, 1.0), (2, 1.0, -1.0)])
def test_impossible_times(bad):
    with pytest.raises(ValueError, match=str(bad[1])):
        speedup(*bad)


def test_fit_finds_the_line_that_the_points_lie_on():
    points = [Point(2, b, 2e-3 + 1e-4 * b, 0.0, t, 0.0) for b, t in ((1, 3e-3), (8, 4e-3), (64, 9))]
    assert fit(points) == pytest.approx((2e-3, 1e-4, 4e-3))
    with pytest.raises(ValueError, match="two batch sizes"):
        fit(points[:1] * 2)


def test_the_link_is_the_slower_the_more_it_carries():
    fast, slow = (link_time(25_450, 4, payload) for payload in (100e6, 1e6))
    assert slow == pytest.approx(6 * 60e-6 + 1.5 * 4 * 25_450 / 1e6)
    assert fast < slow
    assert link_time(25_450, 1, 1e6) == 0


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
    with pytest.raises(ValueError, match="1 or more; got 0"):
        drift.Path(every=0)
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


@pytest.mark.parametrize("n", [3, 4, 5, 8])
@pytest.mark.parametrize("weight", [0.25, 1 / 3])
def test_the_gap_of_a_ring_is_what_its_eigenvalues_are_by_formula(n, weight):
    waves = 1 - 2 * weight * (1 - np.cos(2 * np.pi * np.arange(1, n) / n))
    assert spectral_gap(mixing(n, weight)) == pytest.approx(1 - np.abs(waves).max())


def test_gaps_at_the_ends():
    assert spectral_gap(np.full((4, 4), 0.25)) == pytest.approx(1)
    assert spectral_gap(np.eye(3)) == pytest.approx(0)
    assert spectral_gap(np.ones((1, 1))) == 1
    assert spectral_gap(mixing(2, 0.25)) == pytest.approx(1)
    for bad in (np.ones((2, 2)), np.ones((2, 3)), np.array([[0.5, 0.5], [0.0, 1.0]])):
        with pytest.raises(ValueError, match="rows add up to 1"):
            spectral_gap(bad)
    with pytest.raises(ValueError, match=r"0\.7"):
        mixing(4, 0.7)


def walk(steps, mix, seed=0):
    """Replicas that only noise moves: mean Ξ over many parameters."""
    rng, n = np.random.default_rng(seed), 5
    at = np.zeros((n, 4000))
    for _ in range(steps):
        noise = 0.1 * rng.normal(size=at.shape)
        at = mix @ (at - noise)
    return drift.consensus(at), n, 4000.0


def test_noise_alone_drives_replicas_apart_as_predicted():
    found, n, noise = walk(30, np.eye(5))
    assert found == pytest.approx(drift.after_steps(30, 0.1, noise, n), rel=0.05)


def test_gossip_settles_where_predicted():
    W = mixing(5)
    found, _, noise = walk(60, W)
    assert found == pytest.approx(drift.by_gossip(W, 0.1, noise), rel=0.05)
    assert drift.by_gossip(np.eye(5), 0.1, noise) == np.inf
