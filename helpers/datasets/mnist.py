"""5 000 handwritten digits of MNIST, from this repository: no network is needed.

>>> digits = load()
>>> digits.train_images.shape, digits.test_images.shape
((4000, 1, 28, 28), (1000, 1, 28, 28))
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from helpers.datasets import read_checked

FILE = Path("mnist") / "digits.npz"
MEAN, DEVIATION = 0.1307, 0.3081  # of the pixels of the 60 000 official training images, in [0, 1]
TEST_PER_DIGIT = 100


@dataclass(frozen=True)
class Digits:
    """Images (n, 1, 28, 28) float32 with mean ≈ 0 and deviation ≈ 1; labels (n,) int64, 0-9."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def load(seed: int = 0, data: Path | None = None) -> Digits:
    """Return 4 000 digits to train on and 1 000 others to test on, 100 of each kind.

    The seed chooses which; the training digits are shuffled. DataError if the file is missing or
    damaged.
    """
    with np.load(io.BytesIO(read_checked(FILE, data))) as archive:
        images, labels = archive["images"], archive["labels"].astype(np.int64)
    scaled = ((images / np.float32(255) - MEAN) / DEVIATION).astype(np.float32)[:, None]
    test, train = split(labels, seed)
    return Digits(scaled[train], labels[train], scaled[test], labels[test])


def split(labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``(test, train)``: disjoint positions in ``labels``, every digit's share the same."""
    random = np.random.default_rng(seed)
    shuffled = [random.permutation(np.flatnonzero(labels == digit)) for digit in range(10)]
    test = np.concatenate([positions[:TEST_PER_DIGIT] for positions in shuffled])
    train = np.concatenate([positions[TEST_PER_DIGIT:] for positions in shuffled])
    return random.permutation(test), random.permutation(train)
