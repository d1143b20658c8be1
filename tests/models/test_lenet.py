import numpy as np
import pytest
import torch

from helpers.models.lenet import LeNet, accuracy, reaches


@pytest.mark.parametrize("right", [0, 1, 149, 211, 212, 213, 249, 250])
def test_reaches_agrees_with_the_accuracy(right):
    model = LeNet()
    images = np.random.default_rng(0).random((250, 1, 28, 28), np.float32)
    with torch.no_grad():
        labels = model(torch.from_numpy(images)).argmax(1).numpy()
    labels[right:] = (labels[right:] + 1) % 10
    share = accuracy(model, images, labels)
    assert share == pytest.approx(right / 250)
    for target in (0.0, 0.004, 0.596, 0.85, 0.998, 1.0):
        assert reaches(model, images, labels, target) == (right / 250 >= target), target
