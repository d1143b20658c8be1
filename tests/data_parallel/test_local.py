"""Local SGD, DiLoCo and gossip against the same arithmetic written down in NumPy."""

import numpy as np
import pytest

from helpers.data_parallel import drift
from helpers.data_parallel.schemes.gossip import mixing, spectral_gap
from tests.data_parallel import local_ranks as ranks
from tests.mpi.runner import run_ranks

R, STEPS, RATE = 3, 11, 0.01


def serial(name: str) -> np.ndarray:
    """All replicas in one process: (STEPS + 1, R, 3), momentum 0.5."""
    goals = np.array([1.0, -2.0, 3.0]) * (np.arange(1, R + 1)[:, None] ** 2)
    steep = np.arange(1, R + 1)[:, None]
    at, v = np.full((R, 3), 5.0), np.zeros((R, 3))
    anchor, outer = at[0].copy(), np.zeros(3)
    path, W = [at.copy()], mixing(R, 0.3 if name == "overlapped" else 0.25)
    met = {
        "H = 1": range(1, 12),
        "H = 3": (3, 6, 9),
        "at the mean": (3, 6, 9),
        "schedule": (1, 2, 3, 7, 11),
        "post-local": (1, 2, 3, 7, 11),
        "DiLoCo": (3, 6, 9),
        "DiLoCo, plain": (3, 6, 9),
        "sometimes": (5, 10),
    }.get(name, ())
    for step in range(STEPS):
        g = steep * ((at.mean(0) if name == "at the mean" else at) - goals)
        if name == "sometimes" and step % 2 == 0:
            g[:] = g.mean(0)
        v = 0.5 * v + g
        at = (W @ at if name == "overlapped" else at) - RATE * v
        if name == "gossip":
            at = W @ at
        if step + 1 in met:
            at[:] = at.mean(0)
            if name == "DiLoCo":
                moved = anchor - at[0]
                outer = 0.9 * outer + moved
                anchor = anchor - 0.7 * (moved + 0.9 * outer)
                at[:] = anchor
        path.append(at.copy())
    return np.array(path)


@pytest.fixture(scope="module")
def led():
    return run_ranks(R, ranks.quadratic, STEPS, RATE)


@pytest.mark.mpi
def test_every_scheme_leads_where_the_formula_says(led):
    for name in led[0]:
        found = np.stack([told[name][0] for told in led], axis=1)
        assert np.allclose(found, serial(name), rtol=1e-12, atol=1e-12), name


@pytest.mark.mpi
def test_at_the_end_the_replicas_of_local_sgd_are_one(led):
    for name, (path, weights, averages) in led[0].items():
        others = [told[name][1] for told in led]
        equal = all(np.array_equal(weights, other) for other in others)
        assert equal == (averages is not None), name
        if name not in ("DiLoCo", "gossip", "overlapped"):
            mean = np.mean([told[name][0][-1] for told in led], axis=0)
            assert np.allclose(weights, mean), name
        assert len(path) == STEPS + 1


@pytest.mark.mpi
def test_with_the_same_batches_everywhere_four_replicas_have_the_bits_of_one_process():
    for found in run_ranks(4, ranks.same_batches, 12, timeout=120):
        for name, weights in found.items():
            assert np.array_equal(weights, found["one process"]), name


@pytest.mark.mpi
def test_where_nothing_is_rounded_h_1_is_one_process_to_the_bit():
    for steps in (1, 3):
        for local, alone in run_ranks(4, ranks.dyadic, steps):
            assert np.array_equal(local, alone)


@pytest.mark.mpi
def test_the_bytes_of_a_trace_are_those_of_the_formula():
    steps = 10
    parameters, found = run_ranks(R, ranks.counted, steps)[0]
    assert parameters == 96
    for name, ((sent, messages), averages) in found.items():
        if averages is None:  # gossip: two messages of everything, each step, to two neighbours
            assert set(sent.values()) == {2 * steps * 4 * parameters}
            assert set(messages.values()) == {2 * steps}
        else:
            averages += steps if name == "at the mean" else 0  # one more before each gradient
            assert set(sent.values()) == {drift.bytes_sent(parameters, R, averages)}, name
            assert set(messages.values()) == {averages * 2 * (R - 1)}, name
    averages = {name: count for name, (_, count) in found.items()}
    assert averages["H = 1"] == 10
    assert averages["H = 3"] == 4
    assert averages["never"] == 1
    assert averages["sometimes"] == 5 + 2


@pytest.mark.mpi
def test_bad_settings_are_refused_with_what_was_passed():
    (messages,) = run_ranks(1, ranks.refused)
    expected = ("-1", "2.5", "None", "0", "'two'", "rate=0.0", "momentum=1.0", "0.6", "0")
    assert len(messages) == len(expected)
    for message, part in zip(messages, expected, strict=True):
        assert f"got {part}" in message or part in message.split("got")[1]


# ------------------------------------------------------------------------ arithmetic, no ranks


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


def walk(steps, mix, overlap=False, seed=0):
    """Replicas that only noise moves: mean Ξ over many parameters."""
    rng, n = np.random.default_rng(seed), 5
    at = np.zeros((n, 4000))
    for _ in range(steps):
        noise = 0.1 * rng.normal(size=at.shape)
        at = mix @ at - noise if overlap else mix @ (at - noise)
    return drift.consensus(at), n, 4000.0


def test_noise_alone_drives_replicas_apart_as_predicted():
    found, n, noise = walk(30, np.eye(5))
    assert found == pytest.approx(drift.after_steps(30, 0.1, noise, n), rel=0.05)


@pytest.mark.parametrize("overlap", [False, True])
def test_gossip_settles_where_predicted(overlap):
    W = mixing(5)
    found, _, noise = walk(60, W, overlap)
    assert found == pytest.approx(drift.by_gossip(W, 0.1, noise, overlap), rel=0.05)
    assert drift.by_gossip(np.eye(5), 0.1, noise) == np.inf
