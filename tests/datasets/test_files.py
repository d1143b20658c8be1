"""Every loader names a file that is damaged or missing; the digits, and what they are."""

import hashlib

import numpy as np
import pytest

from helpers.datasets import DataError, mnist
from helpers.datasets.dependencies import load_dependencies
from helpers.datasets.descriptions import load_descriptions, load_word_vectors
from helpers.paths import DATA

LOADERS = {
    "debian/dependencies.txt.xz": load_dependencies,
    "debian/descriptions.jsonl.xz": load_descriptions,
    "debian/word_vectors.npz": load_word_vectors,
    "mnist/digits.npz": lambda data: mnist.load(data=data),
}


@pytest.mark.parametrize("name", LOADERS)
def test_damaged_and_missing_files_are_named(name, tmp_path):
    path, load = tmp_path / name, LOADERS[name]
    path.parent.mkdir()
    sums = (DATA / f"{name}.sha256").read_text()
    assert sums.endswith(f"  {path.name}\n"), "the format of sha256sum"
    content = (DATA / name).read_bytes()
    path.write_bytes(content[:1000] + b"x" + content[1001:])
    with pytest.raises(DataError, match=rf"{path.name}\.sha256 is missing"):
        load(tmp_path)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    for line in (sums, "", f"{'0' * 63}  x\n", "not a sum\n"):
        path.with_name(f"{path.name}.sha256").write_text(line)
        with pytest.raises(DataError, match=rf"{path.name} is damaged.*{found}.*expected.*git che"):
            load(tmp_path)
    path.unlink()
    with pytest.raises(DataError, match=rf"{path.name} is missing"):
        load(tmp_path)


def test_train_and_test_digits_are_disjoint_balanced_and_scaled():
    digits, other = mnist.load(), mnist.load(1)
    train = {image.tobytes() for image in digits.train_images}
    test = {image.tobytes() for image in digits.test_images}
    assert (len(train), len(test), len(train & test)) == (4000, 1000, 0)
    assert np.bincount(digits.train_labels).tolist() == [400] * 10
    assert np.bincount(digits.test_labels).tolist() == [100] * 10
    assert digits.train_images.shape == (4000, 1, 28, 28)
    assert (digits.train_images.dtype, digits.train_labels.dtype) == (np.float32, np.int64)
    assert abs(digits.train_images.mean()) < 0.05
    assert abs(digits.train_images.std() - 1) < 0.05
    assert np.array_equal(digits.test_images, mnist.load(0).test_images)
    assert not np.array_equal(digits.test_images, other.test_images)
