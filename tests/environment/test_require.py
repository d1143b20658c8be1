"""REQUIRE=browser makes a skipped browser test a failure; who has no compiler sees skips."""

import os
import shutil
import sys

import pytest

from helpers.paths import ROOT
from tests.environment import run

TESTS = """
import pytest
from helpers.machine.compilers import CompilerError, find_compiler

@pytest.mark.browser
def test_in_the_browser():
    pytest.skip("no Chromium here")

@pytest.mark.browser
@pytest.mark.skipif(True, reason="not at all")
def test_before_it_begins(): pass

@pytest.mark.browser
@pytest.mark.xfail(reason="known", strict=True)
def test_expected_to_fail(): assert False

@pytest.mark.gpu
def test_on_a_gpu():
    pytest.skip("no GPU here")

@pytest.fixture
def compiled():
    find_compiler()

def test_that_compiles(compiled): pass

def test_that_prints_what_a_rank_said():
    print(CompilerError("no C++ compiler on PATH"))
    assert False

def test_that_fails_for_another_reason():
    assert False
"""


@pytest.mark.parametrize(
    ("require", "outcome"),
    [
        ("", "1 failed, 5 skipped, 1 xfailed"),
        ("browser", "2 failed, 3 skipped, 1 xfailed, 1 error"),  # the GPU's marker is not named
    ],
)
def test_skips_count_as_asked(tmp_path, require, outcome):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "tests").mkdir()
    for name in ("conftest.py", "leftovers.py"):
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests")
    (tmp_path / "tests" / "test_skips.py").write_text(TESTS, encoding="utf-8")
    environment = {k: v for k, v in os.environ.items() if k not in ("CI", "CC", "CXX")}
    environment |= {"PYTHONPATH": str(ROOT), "REQUIRE": require, "PATH": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    done = run(*command, cwd=tmp_path, env=environment)
    assert outcome in done.stdout.splitlines()[-1], done.stdout
    for line in ("[1] tests/conftest.py: no C compiler", "[1] tests/conftest.py: no C++ compiler"):
        assert f"SKIPPED {line} on this machine: `apt install g" in done.stdout
