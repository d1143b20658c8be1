"""Parts of the data, noise, links and the source's curve: arithmetic; and one run on ranks."""

import functools

import numpy as np
import pytest
import torch

from helpers.data_parallel.replica import paced
from helpers.data_parallel.schemes.averaged import patient_average
from helpers.data_parallel.schemes.local import LocalSGD
from helpers.data_parallel.tasks import curve, perceptron
from helpers.data_parallel.tasks.perceptron import noise, small
from helpers.data_parallel.tasks.sampling import parts
from helpers.data_parallel.theory.drift import Path
from helpers.models.curve import FourLayers, samples
from helpers.models.curve import curve as formula
from tests.mpi.runner import run_ranks

LABELS = np.repeat(np.arange(10), 40)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("workers", [1, 3, 4])
def test_parts_are_as_large_and_share_nothing(share, workers):
    found = parts(LABELS, workers, share, seed=2)
    assert {len(part) for part in found} == {len(LABELS) // workers}
    assert len(set(np.concatenate(found).tolist())) == workers * (len(LABELS) // workers)


def test_sorted_parts_have_few_classes_and_mixed_ones_all():
    def classes(share):
        return [len(set(LABELS[part])) for part in parts(LABELS, 4, share)]

    assert max(classes(1.0)) <= 4
    assert min(classes(0.0)) == 10
    for part in parts(LABELS, 4, 0.5):  # 50 of 100 are of two or three classes
        counts = np.sort(np.bincount(LABELS[part], minlength=10))
        assert 50 <= counts[-3:].sum() <= 80
        assert counts[0] > 0


def test_bad_parts_are_refused():
    for share, workers in ((1.5, 2), (-0.1, 2), (0.5, 0), (0.5, 401)):
        with pytest.raises(ValueError, match="expects a share"):
            parts(LABELS, workers, share)


def test_a_paced_gradient_sleeps_for_the_rest_only():
    rest = paced(0.5)
    assert rest(0.2) == pytest.approx(0.3)
    assert rest(0.7) == 0


def test_the_time_of_a_paced_gradient_may_be_drawn():
    drawn = iter([2.0, 0.5])
    rest = paced(0.5, lambda mean: mean * next(drawn))
    assert [rest(0.3), rest(0.3)] == [0.7, 0.0]


def test_noise_falls_with_the_batch():
    weights = torch.nn.utils.parameters_to_vector(small(0).parameters()).detach().numpy()
    assert weights.size == 25_450
    one, four = (noise(weights, batch, draws=60) for batch in (4, 16))
    assert one / four == pytest.approx(4, rel=0.3)


def test_the_first_step_below_the_target(monkeypatch):
    losses = {0: 2.0, 8: 0.6, 16: 0.4, 24: 0.5}
    monkeypatch.setattr(perceptron, "judge", lambda weights: (losses[int(weights[0])], 0.0))
    path = Path(1, list(losses), [], [np.array([step + 1.0]) for step in losses])
    other = Path(1, list(losses), [], [np.array([step - 1.0]) for step in losses])
    runs = [perceptron.Trained(None, path=path), perceptron.Trained(None, path=other)]
    assert perceptron.losses(runs) == (list(losses), list(losses.values()))
    assert perceptron.steps_to(runs, 0.5) == 16
    assert perceptron.steps_to(runs, 0.1) is None


def test_the_curve_and_its_network():
    x, y = samples(50, seed=1)
    assert x.shape == y.shape == (50, 1)
    assert np.allclose(y, np.sqrt(x) * np.sin(3.14 * x / 5), atol=1e-5)
    assert formula(np.zeros(1)) == 0
    assert sum(p.numel() for p in FourLayers().parameters()) == 16_401


def _fits() -> tuple:
    scheme = functools.partial(LocalSGD, period=4, average=patient_average)
    run = curve.fit(scheme, most=3, target=0.0, follow=4, seed=1)
    easy = curve.fit(scheme, most=3, target=100.0)
    taken = curve.crowd(1, 4, batch=10)
    alone = curve.speed(1, batches=2, pace=1e-3, repeats=1)
    return run.history.updates, run.path.steps, run.loss, easy.epochs, taken, alone


@pytest.mark.mpi
def test_ranks_fit_the_curve_until_the_loss_is_low_enough():
    first, second = run_ranks(2, _fits)
    assert first[:2] == (24, [0, 4, 8, 12, 16, 20, 24])  # 1600 samples, 2 · 100 in a step
    assert first[2] == second[2]  # the mean at the end
    assert first[3] == 1.0
    assert first[4] > 0
    assert first[5] >= 2e-3
    assert second[5] is None
