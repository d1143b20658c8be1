"""Every example in a docstring of the package gives what it says."""

import doctest
import importlib
from pathlib import Path

import numpy as np
import pytest

from helpers.paths import ROOT

RANKS = {"helpers.cluster.kernel.cluster"}  # whose examples start ranks


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def with_examples() -> list:
    """Return the names of the modules that have examples."""
    paths = sorted((ROOT / "helpers").rglob("*.py"))
    names = [name_of(path) for path in paths if ">>> " in path.read_text(encoding="utf-8")]
    return [pytest.param(n, marks=[pytest.mark.mpi] * (n in RANKS)) for n in names]


@pytest.mark.parametrize("name", with_examples())
def test_examples_of_a_module(name):
    # as typed in a notebook: what a cell defines belongs to __main__
    typed = {"__name__": "__main__", "np": np}
    found = doctest.testmod(importlib.import_module(name), extraglobs=typed)
    assert found.failed == 0
