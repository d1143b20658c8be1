import numpy as np
import pytest
import torch

from helpers.data_parallel.large_batch import noise, search
from helpers.data_parallel.large_batch.noise import Lengths
from helpers.data_parallel.large_batch.optimizers import LAMB, LARS, AbsorbedSGD, warmed
from helpers.data_parallel.schemes import MPIAllreduce
from helpers.data_parallel.tasks import lenet, ranks
from tests.mpi.runner import run_ranks


def test_rates_rise_to_where_they_stay():
    assert [warmed(s, 3, 0.6) for s in range(4)] == pytest.approx([0.2, 0.4, 0.6, 0.6])
    assert warmed(0, 0, 0.6) == 0.6


def _steps(make, schedule):
    p = torch.nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer, places = make([p]), []
    for rate in schedule:
        optimizer.param_groups[0]["lr"] = rate
        p.grad = 2 * p.detach() + torch.tensor([0.3, 0.1])
        optimizer.step()
        places.append(p.detach().clone())
    return torch.stack(places)


def test_corrected_momentum_is_pytorchs_when_the_rate_changes_and_uncorrected_is_not():
    schedule = [0.1, 0.1, 0.3, 0.3, 0.02, 0.02]
    torchs = _steps(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), schedule)
    for corrected in (True, False):
        ours = _steps(lambda p, corrected=corrected: AbsorbedSGD(p, 0.1, 0.9, corrected), schedule)
        same = torch.allclose(ours, torchs, rtol=1e-5)
        assert same == corrected
        assert torch.allclose(ours[:2], torchs[:2])


def test_a_step_of_lars_and_lamb_is_as_long_as_the_weights_say():
    for kind, rate in ((LARS, 0.01), (LAMB, 0.02)):
        for factor in (1e-3, 1e3):  # the gradient's length does not matter
            torch.manual_seed(0)
            w, b = torch.nn.Parameter(torch.randn(4, 3)), torch.nn.Parameter(torch.ones(4))
            begun = w.detach().clone(), b.detach().clone()
            w.grad, b.grad = factor * torch.randn(4, 3), torch.full((4,), 0.5)
            kind([w, b], lr=rate).step()
            moved = (w.detach() - begun[0]).norm() / begun[0].norm()
            assert float(moved) == pytest.approx(rate, rel=1e-4)
            plain = rate * (0.5 if kind is LARS else 1.0)
            assert (begun[1] - b.detach()).tolist() == pytest.approx([plain] * 4, rel=1e-3)


def test_the_noise_scale_of_a_known_gradient():
    rng, signals, noises = np.random.default_rng(0), [], []
    g, sigma = np.array([3.0, 4.0]), np.array([1.0, 2.0])  # ‖G‖² 25, tr Σ 5
    for _ in range(20_000):
        small = g + sigma * rng.standard_normal((4, 2)) / 2**0.5  # four batches of 2
        found = noise.parts((small**2).sum(1).mean(), (small.mean(0) ** 2).sum(), 2, 8)
        signals.append(found[0])
        noises.append(found[1])
    assert np.mean(signals) == pytest.approx(25, rel=0.01)
    assert np.mean(noises) == pytest.approx(5, rel=0.03)
    with pytest.raises(ValueError, match="got 8 and 8"):
        noise.parts(1, 1, 8, 8)


def test_the_critical_batch_of_a_known_law():
    batches = [64, 256, 1024, 4096]
    steps = [50 * (1 + 700 / b) for b in batches]
    assert noise.critical_batch(batches, steps) == pytest.approx((50, 700))
    with pytest.raises(ValueError, match="two batches"):
        noise.critical_batch([64, 64], [3, 4])


@pytest.fixture
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread")
def test_a_task_is_trained_by_every_optimizer_and_told_apart_from_guessing():
    task = search.descriptions()
    assert task.train_x.shape[1] == 1000
    for optimizer, rate in (("SGD", 0.3), ("LARS", 0.03), ("LAMB", 0.03)):
        outcome = search.trained(task, 256, optimizer, rate, epochs=4)
        assert outcome.accuracy > 0.4, optimizer
    absorbed = [search.trained(task, 256, name, 0.3, epochs=1).loss for name in search.ABSORBED]
    plain = search.trained(task, 256, "SGD", 0.3, epochs=1).loss
    assert absorbed == pytest.approx([plain] * 2)  # while the rate stays, both are SGD
    early = search.trained(task, 256, "SGD", 0.3, epochs=9, target=0.5)
    assert early.steps is not None
    assert early.steps < 9 * len(task.train_y) // 256
    assert search.trained(task, 10**6, "SGD", 1e30, epochs=3) == search.Score(0.0, float("inf"))
    with pytest.raises(ValueError, match="'Adagrad'"):
        search.trained(task, 8, "Adagrad", 0.1)


def measured(steps: int) -> tuple:
    """The lengths in a training, and how far its weights are from one without measuring."""
    scheme, settings = Lengths(ranks()), {"steps": steps, "batch": 16, "rate": 0.02}
    weights = lenet.train(lambda comm: scheme, ranks(), **settings).weights
    plain = lenet.train(MPIAllreduce, ranks(), **settings).weights
    return scheme.small, scheme.large, float(np.abs(weights - plain).max())


@pytest.mark.mpi
def test_the_noise_is_measured_while_training():
    found = run_ranks(2, measured, 30, timeout=100)
    small, large, apart = found[0]
    assert len(small) == len(large) == 30
    assert apart == 0
    assert found[1][:2] == (small, large)
    signal, spread = noise.parts(np.mean(small), np.mean(large), 16, 32)
    assert 1 < spread / signal < 1e4
