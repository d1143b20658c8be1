"""Debian's dependency graph: what is committed, and the script that made it."""

import importlib.util
import sys

import numpy as np
import pytest

from helpers.datasets.dependencies import load_dependencies
from helpers.datasets.files import DATA, DataError


@pytest.fixture(scope="module")
def debian():
    return load_dependencies()


def test_the_snapshot(debian):
    assert len(debian.names) == debian.about["nodes"] > 60_000
    assert len(debian.targets) == debian.about["edges"] > 250_000
    assert list(debian.names) == sorted(debian.names)
    assert {"origin", "version", "date", "sha256 of the index"} <= debian.about.keys()
    assert set(debian.sections) >= {"science", "libs", "python", "games"}


def test_known_dependencies(debian):
    matrix = debian.adjacency()
    assert matrix[debian.number("python3-scipy"), debian.number("python3-numpy")] == 1
    assert matrix[debian.number("python3-numpy"), debian.number("python3-scipy")] == 0
    assert matrix[debian.number("coreutils"), debian.number("libc6")] == 1  # a Pre-Depends
    assert matrix.nnz == len(debian.targets)
    assert set(np.unique(matrix.data)) == {1.0}


def test_unknown_package(debian):
    with pytest.raises(KeyError, match="no-such-package"):
        debian.number("no-such-package")


def test_damage_is_noticed(tmp_path):
    folder = tmp_path / "debian"
    folder.mkdir()
    name = "dependencies.txt.xz"
    (folder / name).write_bytes((DATA / "debian" / name).read_bytes()[:-1] + b"x")
    sums = f"{name}.sha256"
    (folder / sums).write_text((DATA / "debian" / sums).read_text())
    with pytest.raises(DataError, match="damaged"):
        load_dependencies(tmp_path)


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(str(DATA / "debian"))
    monkeypatch.delitem(sys.modules, "archive", raising=False)
    spec = importlib.util.spec_from_file_location("made", DATA / "debian" / "dependencies.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_script_reads_a_made_up_archive_and_the_loader_reads_it_back(script, tmp_path):
    packages = [
        {"Package": "app", "Section": "net", "Depends": "lib (>= 2), mail-agent, gone | old"},
        {"Package": "lib", "Section": "libs", "Pre-Depends": "base:any | lib"},
        {"Package": "exim", "Section": "mail", "Provides": "mail-agent (= 1), mta"},
        {"Package": "base", "Section": "libs"},
        {"Package": "postfix", "Section": "mail", "Provides": "mail-agent", "Depends": "base"},
    ]
    rows, unmet = script.graph(packages)
    assert unmet == 1  # gone | old
    names = [row[0] for row in rows]
    edges = {(name, names[t]) for name, _, targets in rows for t in targets}
    assert edges == {("app", "lib"), ("app", "exim"), ("lib", "base"), ("postfix", "base")}
    (tmp_path / "debian").mkdir()
    about = {"origin": "made up", "nodes": 5, "edges": 4}
    script.write(tmp_path / "debian" / "dependencies.txt.xz", about, rows)
    read = load_dependencies(tmp_path)
    assert read.sections == ("net", "libs", "mail", "libs", "mail")
    found = {
        (read.names[a], read.names[b]) for a, b in zip(read.sources, read.targets, strict=True)
    }
    assert found == edges
