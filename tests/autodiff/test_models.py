"""LeNet beside PyTorch, trained on digits; GELU and maxout."""

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_limits

from helpers import autodiff as ad
from helpers.autodiff import models
from helpers.datasets import mnist
from helpers.models.lenet import LeNet
from tests.autodiff.agreement import assert_agrees

random = np.random.default_rng(12)
BATCH, RATE = 50, 0.05


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Small products, shared out to threads that other processes keep waiting, take ten times."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with threadpool_limits(1, "blas"):
        yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def digits():
    return mnist.load()


def batches(digits, epochs, seed=0):
    order = np.random.default_rng(seed)
    for _ in range(epochs):
        chosen = order.permutation(len(digits.train_labels))
        for start in range(0, len(chosen) - BATCH + 1, BATCH):
            part = chosen[start : start + BATCH]
            yield digits.train_images[part], digits.train_labels[part]


def states_of(model):
    return [ad.state(name, p.detach().numpy()) for name, p in model.named_parameters()]


def test_lenet_has_the_losses_of_pytorch_step_by_step(digits):
    # in float32 one rounding may send a gradient another way through a maximum
    model = LeNet(seed=1).double()
    step = models.training_step(models.lenet, states_of(model), (BATCH, 1, 28, 28), RATE)
    optimizer = torch.optim.SGD(model.parameters(), RATE)
    for images, labels in batches(digits, 1):
        images = images.astype(np.float64)
        ours = step(images, labels)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(
            model(torch.from_numpy(images)), torch.from_numpy(labels)
        )
        loss.backward()
        optimizer.step()
        assert abs(ours - loss.item()) < 1e-10
    assert ours < 2


def test_lenet_learns_digits(digits):
    weights = states_of(LeNet(seed=0))
    step = models.training_step(models.lenet, weights, (BATCH, 1, 28, 28), 0.1)
    for images, labels in batches(digits, 5):
        step(images, labels)
    x = ad.variable("x", ("n", 1, 28, 28), "float32")
    (scores,) = ad.function([x], [models.lenet(x, weights)])(digits.test_images)
    assert np.mean(scores.argmax(1) == digits.test_labels) >= 0.95


def test_a_step_multiplies_as_often_as_backpropagation_does():
    """What it costs beside PyTorch's is a row of ``bench.autodiff``."""
    step = models.training_step(models.lenet, states_of(LeNet()), (BATCH, 1, 28, 28), RATE)
    names = [type(one.operator).__name__ for one in step.plan.steps]
    assert names.count("MatMul") == 14  # forward, to weights, to inputs: 3 for each of 5, less 1
    assert len(names) <= 144


def test_planned_and_counted_memory_of_a_step_are_equal(digits):
    step = models.training_step(models.lenet, states_of(LeNet()), (BATCH, 1, 28, 28), RATE)
    (images, labels), *_ = batches(digits, 1)
    for _ in range(2):
        memory = ad.Allocator()
        step.plan(images, labels, allocator=memory)
        assert memory.peak == step.plan.peak


def test_gelu():
    assert_agrees(
        ad.gelu,
        lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
        [random.normal(size=(3, 4)) * 2],
    )


def test_maxout_with_symbolic_sizes():
    """Groups of three channels, the largest of each (Goodfellow et al. 2013)."""
    x = ad.variable("x", ("n", "m"))
    y = ad.maxout(x, 3)
    assert str(y.shape) == "(n, m//3)"
    f = ad.function([x], [y, *ad.gradients(ad.sum(y), [x])])
    for n, m in [(2, 6), (1, 9)]:
        array = random.normal(size=(n, m))
        value, g = f(array)
        groups = array.reshape(n, m // 3, 3)
        assert np.array_equal(value, groups.max(2))
        assert np.array_equal(g.reshape(groups.shape), groups == groups.max(2, keepdims=True))
    with pytest.raises(ValueError, match="cannot reshape"):
        f(random.normal(size=(2, 5)))
