"""The Debian snapshots: dependencies, descriptions, word vectors, and what made them."""

import importlib.util
import sys
from collections import Counter

import numpy as np
import pytest

from helpers.datasets.characters import ALPHABET, as_text, batch, encode, load_characters
from helpers.datasets.dependencies import load_dependencies
from helpers.datasets.descriptions import load_descriptions, load_word_vectors
from helpers.paths import DATA

RELEASE = (
    "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA256\n\n"
    "Version: 12.0\nSHA256:\n {} 9 main/Packages.xz\n"
)


@pytest.fixture(scope="module")
def debian():
    return load_dependencies()


@pytest.fixture(scope="module")
def snapshot():
    return load_descriptions()


def test_the_snapshot_has_known_dependencies(debian):
    assert len(debian.names) == debian.about["nodes"] > 60_000
    assert len(debian.targets) == debian.about["edges"] > 250_000
    assert list(debian.names) == sorted(debian.names)
    assert {"origin", "version", "date", "sha256 of the index"} <= debian.about.keys()
    assert set(debian.sections) >= {"science", "libs", "python", "games"}
    matrix, number = debian.adjacency(), debian.number
    assert matrix[number("python3-scipy"), number("python3-numpy")] == 1
    assert matrix[number("python3-numpy"), number("python3-scipy")] == 0
    assert matrix[number("coreutils"), number("libc6")] == 1  # a Pre-Depends
    assert matrix.nnz == len(debian.targets)
    assert set(np.unique(matrix.data)) == {1.0}
    with pytest.raises(KeyError, match="no-such-package"):
        number("no-such-package")


def test_eight_sections_of_documents_that_say_enough_and_not_their_own_names(snapshot):
    """The label leaks through names such as libreoffice-math: none may be left as such."""
    counts = Counter(d.section for d in snapshot.documents)
    assert set(counts) == set(snapshot.sections)
    assert len(snapshot.sections) == 8
    assert min(counts.values()) >= 250
    assert {"version", "date", "licence", "origin"} <= set(snapshot.about)
    for document in snapshot.documents:
        assert len(document.sentences) >= 4  # three beside the synopsis
        assert all(document.sentences)
        assert document.package.lower() not in " ".join(document.lines).lower().split()


@pytest.mark.parametrize("fold", range(5))
def test_no_source_package_stands_on_both_sides(snapshot, fold):
    train, test = snapshot.split(fold)
    assert not {d.source for d in train} & {d.source for d in test}
    assert len(train) + len(test) == len(snapshot.documents)
    assert 0.15 < len(test) / len(snapshot.documents) < 0.25


def test_bad_fold_and_unknown_package(snapshot):
    with pytest.raises(ValueError, match="fold=5"):
        snapshot.split(5)
    with pytest.raises(KeyError, match="audacity"):
        snapshot.find("audacityy")


def test_word_vectors_are_unit_and_place_kin_together():
    words, vectors = load_word_vectors()
    assert len(set(words)) == len(words) == len(vectors)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=0.02)
    at = {word: i for i, word in enumerate(words)}
    protein, genome, browser = (vectors[at[w]] for w in ("protein", "genome", "browser"))
    assert protein @ genome > protein @ browser + 0.2


def decode(tokens):
    return "".join(ALPHABET[token] for token in tokens)


def test_characters_there_and_back_and_the_packages_held_out(snapshot):
    assert decode(encode(ALPHABET)) == ALPHABET
    assert len(set(ALPHABET)) == 96
    assert decode(encode("naïve\t☃ text\n")) == "nave text\n"
    train, test = load_characters()
    held = snapshot.split(0)[1]
    assert decode(test).startswith(as_text(held[0]))
    assert f"\n{held[1].package}: " in decode(test)
    assert f"\n{held[1].package}: " not in decode(train)
    assert len(train) > 3 * len(test) > 1_000_000


def test_a_batch_is_the_same_for_everyone_and_another_at_each_step():
    text = np.arange(96).repeat(3)
    inputs, targets = batch(text, 4, 9, seed=1, step=2)
    assert inputs.shape == targets.shape == (4, 9)
    assert (inputs[:, 1:] == targets[:, :-1]).all()
    assert np.array_equal(batch(text, 4, 9, seed=1, step=2), (inputs, targets))
    assert not (inputs == batch(text, 4, 9, seed=1, step=3)[0]).all()
    assert not (inputs == batch(text, 4, 9, seed=2, step=2)[0]).all()


@pytest.fixture
def script(monkeypatch):
    """``script(name)``: a module of data/debian."""
    monkeypatch.syspath_prepend(str(DATA / "debian"))
    monkeypatch.delitem(sys.modules, "archive", raising=False)

    def load(name):
        spec = importlib.util.spec_from_file_location(
            f"made_{name}", DATA / "debian" / f"{name}.py"
        )
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def test_the_script_reads_a_made_up_archive_and_the_loader_reads_it_back(script, tmp_path):
    script = script("dependencies")
    packages = [
        {"Package": "app", "Section": "net", "Depends": "lib (>= 2), mail-agent, gone | old"},
        {"Package": "lib", "Section": "libs", "Pre-Depends": "base:any | lib"},
        {"Package": "exim", "Section": "mail", "Provides": "mail-agent (= 1), mta"},
        {"Package": "base", "Section": "libs"},
        {"Package": "postfix", "Section": "mail", "Provides": "mail-agent", "Depends": "base"},
    ]
    rows, unmet = script.graph(packages)
    assert unmet == 1  # gone | old
    (tmp_path / "debian").mkdir()
    about = {"origin": "made up", "nodes": 5, "edges": 4}
    script.write(tmp_path / "debian" / "dependencies.txt.xz", about, rows)
    read = load_dependencies(tmp_path)
    assert read.sections == ("net", "libs", "mail", "libs", "mail")
    edges = {
        (read.names[a], read.names[b]) for a, b in zip(read.sources, read.targets, strict=True)
    }
    assert edges == {("app", "lib"), ("app", "exim"), ("lib", "base"), ("postfix", "base")}


def test_a_wrong_signature_is_refused(script):
    module = script("archive")
    if not module.shutil.which("gpgv") or not module.KEYRING.exists():
        pytest.skip("gpgv or Debian's keyring is not installed")
    with pytest.raises(module.ArchiveError, match="signature is wrong"):
        module._signature_holds(RELEASE.encode())
