"""REQUIRE=browser makes a skipped browser test a failure, and leaves every other skip alone."""

import os
import shutil
import subprocess
import sys

import pytest

from helpers.paths import ROOT

TESTS = """
import pytest

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
"""


@pytest.mark.parametrize(
    ("require", "outcome"),
    [
        ("", "3 skipped, 1 xfailed"),
        ("browser", "1 failed, 1 skipped, 1 xfailed, 1 error"),
        ("openmpi", "3 skipped, 1 xfailed"),
    ],
)
def test_skips_count_as_asked(tmp_path, require, outcome):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "tests").mkdir()
    for name in ("conftest.py", "leftovers.py"):
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests")
    (tmp_path / "tests" / "test_skips.py").write_text(TESTS, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "REQUIRE": require, "CI": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert outcome in done.stdout.splitlines()[-1], done.stdout
    assert (done.returncode == 1) == ("failed" in outcome.replace("xfailed", ""))
