"""The snapshot of descriptions and its word vectors: origin, split, damage."""

import shutil
from collections import Counter

import numpy as np
import pytest

from helpers.datasets.descriptions import load_descriptions
from helpers.datasets.files import DATA, DataError, read_checked
from helpers.datasets.word_vectors import load_word_vectors


@pytest.fixture(scope="module")
def snapshot():
    return load_descriptions()


def test_eight_sections_each_well_filled(snapshot):
    counts = Counter(d.section for d in snapshot.documents)
    assert set(counts) == set(snapshot.sections)
    assert len(snapshot.sections) == 8
    assert min(counts.values()) >= 250
    assert {"version", "date", "licence", "origin"} <= set(snapshot.about)


def test_every_document_has_three_sentences_beside_its_synopsis(snapshot):
    assert min(len(d.sentences) for d in snapshot.documents) >= 4
    assert all(all(s) for d in snapshot.documents for s in d.sentences)


@pytest.mark.parametrize("fold", range(5))
def test_no_source_package_stands_on_both_sides(snapshot, fold):
    train, test = snapshot.split(fold)
    assert not {d.source for d in train} & {d.source for d in test}
    assert len(train) + len(test) == len(snapshot.documents)
    assert 0.15 < len(test) / len(snapshot.documents) < 0.25


def test_no_document_says_its_own_name(snapshot):
    """The label leaks through names such as libreoffice-math: none may be left as such."""
    for document in snapshot.documents:
        assert document.package.lower() not in " ".join(document.lines).lower().split()


def test_bad_fold_and_unknown_package(snapshot):
    with pytest.raises(ValueError, match="fold=5"):
        snapshot.split(5)
    with pytest.raises(KeyError, match="audacity"):
        snapshot.find("audacityy")


def test_damaged_and_missing_files_are_named(tmp_path):
    shutil.copytree(DATA / "debian", tmp_path / "debian")
    for name, load in (
        ("descriptions.jsonl.xz", load_descriptions),
        ("word_vectors.npz", load_word_vectors),
    ):
        path = tmp_path / "debian" / name
        content = path.read_bytes()
        path.write_bytes(content[:1000] + b"x" + content[1001:])
        with pytest.raises(DataError, match=rf"{name} is damaged.*expected.*git checkout"):
            load(tmp_path)
        path.unlink()
        with pytest.raises(DataError, match=rf"{name} is missing"):
            load(tmp_path)


@pytest.mark.parametrize("line", ["", "0" * 63 + "  word_vectors.npz\n", "not a sum\n"])
def test_a_damaged_sum_is_named(tmp_path, line):
    shutil.copytree(DATA / "debian", tmp_path / "debian")
    (tmp_path / "debian" / "word_vectors.npz.sha256").write_text(line)
    with pytest.raises(DataError, match=r"word_vectors.npz is damaged.*expected"):
        load_word_vectors(tmp_path)


def test_sums_are_in_the_format_of_sha256sum(tmp_path):
    assert read_checked("debian/descriptions.jsonl.xz").startswith(b"\xfd7zXZ")
    line = (DATA / "debian" / "descriptions.jsonl.xz.sha256").read_text()
    assert line.endswith("  descriptions.jsonl.xz\n")


def test_word_vectors_are_unit_and_place_kin_together():
    words, vectors = load_word_vectors()
    assert len(set(words)) == len(words) == len(vectors)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=0.02)
    at = {word: i for i, word in enumerate(words)}
    protein, genome, browser = (vectors[at[w]] for w in ("protein", "genome", "browser"))
    assert protein @ genome > protein @ browser + 0.2
