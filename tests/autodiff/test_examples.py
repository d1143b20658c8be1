"""The examples in the docstrings print what they say."""

import doctest
import importlib
import pkgutil

import numpy as np
import pytest

from helpers import autodiff

MODULES = [
    "helpers.autodiff",
    *(m.name for m in pkgutil.walk_packages(autodiff.__path__, "helpers.autodiff.")),
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    found = doctest.testmod(importlib.import_module(name), extraglobs={"np": np})
    assert found.failed == 0
