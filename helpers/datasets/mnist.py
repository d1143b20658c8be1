"""5 000 handwritten digits of MNIST, from this repository: no network is needed.

>>> digits = load()
>>> digits.train_images.shape, digits.test_images.shape
((4000, 1, 28, 28), (1000, 1, 28, 28))
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

PATH = Path(__file__).resolve().parents[2] / "data" / "mnist" / "digits.npz"
SHA256 = "e613f869dab204a63ca426b433eb82b9fbeea13c331b12de387c1c5339df8224"
MEAN, DEVIATION = 0.1307, 0.3081  # of the pixels of the 60 000 official training images, in [0, 1]
TEST_PER_DIGIT = 100


@dataclass(frozen=True)
class Digits:
    """Images (n, 1, 28, 28) float32 with mean ≈ 0 and deviation ≈ 1; labels (n,) int64, 0-9."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def load(seed: int = 0, path: Path = PATH) -> Digits:
    """Return 4 000 digits to train on and 1 000 others to test on, 100 of each kind.

    ``seed`` chooses which; the training digits are shuffled. Raises FileNotFoundError without the
    file, and ValueError if its sha256 is not the expected one.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: git restores it, or data/mnist/make.py")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != SHA256:
        raise ValueError(f"{path} is damaged: its sha256 is {found}, expected {SHA256}")
    with np.load(path) as archive:
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
