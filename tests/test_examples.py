"""Every example in a docstring of a library gives what it says."""

import doctest
import importlib
from pathlib import Path

import numpy as np
import pytest

from helpers.paths import ROOT
from tools.site.generated import LIBRARIES

RANKS = {"helpers.cluster.kernel.cluster"}  # whose examples start ranks


def with_examples(library: str) -> list[str]:
    """Return the modules of a library that have examples."""
    paths = sorted((ROOT / "helpers" / library).rglob("*.py"))
    return [name_of(path) for path in paths if ">>> " in path.read_text(encoding="utf-8")]


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def marks(name: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.mpi] * (name in RANKS)


MODULES = [name for library in LIBRARIES for name in with_examples(library)]


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in MODULES])
def test_examples_of_a_module(name):
    # as typed in a notebook: what a cell defines belongs to __main__
    typed = {"__name__": "__main__", "np": np}
    found = doctest.testmod(importlib.import_module(name), extraglobs=typed)
    assert found.failed == 0
