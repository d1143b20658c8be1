import hashlib
import shutil

import numpy as np
import pytest

from helpers.datasets import mnist
from helpers.datasets.files import DataError
from helpers.paths import DATA


def test_train_and_test_digits_are_disjoint_and_balanced():
    digits = mnist.load()
    train = {image.tobytes() for image in digits.train_images}
    test = {image.tobytes() for image in digits.test_images}
    assert (len(train), len(test), len(train & test)) == (4000, 1000, 0)
    assert np.bincount(digits.train_labels).tolist() == [400] * 10
    assert np.bincount(digits.test_labels).tolist() == [100] * 10


def test_shapes_and_scale():
    digits = mnist.load()
    assert digits.train_images.shape == (4000, 1, 28, 28)
    assert digits.train_images.dtype == np.float32
    assert digits.train_labels.dtype == np.int64
    assert abs(digits.train_images.mean()) < 0.05
    assert abs(digits.train_images.std() - 1) < 0.05


def test_the_seed_chooses_the_split():
    one, two, three = mnist.load(0), mnist.load(0), mnist.load(1)
    assert np.array_equal(one.test_images, two.test_images)
    assert not np.array_equal(one.test_images, three.test_images)


def test_neighbours_look_alike():
    """The labels belong to the images: the nearest training digit is mostly of the same kind."""
    digits = mnist.load()
    train = digits.train_images.reshape(4000, -1)
    test = digits.test_images[:200].reshape(200, -1)
    distances = (train**2).sum(1) - 2 * test @ train.T
    assert (digits.train_labels[distances.argmin(1)] == digits.test_labels[:200]).mean() > 0.85


def test_a_damaged_or_missing_file_is_named(tmp_path):
    damaged = tmp_path / mnist.FILE
    shutil.copytree(DATA / mnist.FILE.parent, damaged.parent)
    with damaged.open("r+b") as file:
        file.seek(1000)
        file.write(b"x")
    with pytest.raises(DataError, match=hashlib.sha256(damaged.read_bytes()).hexdigest()):
        mnist.load(data=tmp_path)
    with pytest.raises(DataError, match="nowhere"):
        mnist.load(data=tmp_path / "nowhere")


def test_the_checksum_stands_in_the_readme():
    recorded = (DATA / "mnist" / "digits.npz.sha256").read_text().split()[0]
    assert recorded in (DATA / "mnist" / "README.md").read_text()
