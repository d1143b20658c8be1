"""Executed notebooks, each once for all tests of all workers, and their times at the end."""

import contextlib
import fcntl
import os
import pickle
from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path

import pytest

from helpers.paths import ROOT
from tools import run
from tools.notebooks import sources
from tools.site import sources as site_sources
from tools.site.__main__ import build


@pytest.fixture(scope="session")
def place(tmp_path_factory) -> Path:
    """The folder that the workers of one run share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "executed"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def executed(place, record_property):
    """``executed(name, kind)``: the notebook of a set, executed once for the whole run."""

    def get(name: str, kind: str) -> run.Execution:
        path = place / f"{name}-{kind}"
        with _turn(path):
            if not path.exists():
                done = run.execute(run.location(name, kind), kind, states=kind == "reader")
                path.write_bytes(pickle.dumps(done))
                record_property("execution", astuple(done.timing))
        return pickle.loads(path.read_bytes())

    return get


@pytest.fixture
def built(place, executed):
    """The site over all notebooks, built once for the whole run, and Sphinx's complaints."""
    folder = place / "built" / "site"
    said = place / "site.txt"
    with _turn(place / "site"):
        if not said.exists():
            notebooks = {
                path.stem: executed(path.stem, "reader").notebook for path in sources(ROOT)
            }
            site_sources.write(place / "site-sources", notebooks)
            said.write_text(build(place / "site-sources", folder))
    return folder, said.read_text()


@contextlib.contextmanager
def _turn(path: Path) -> Iterator[None]:
    """Wait until no other worker executes this notebook."""
    with path.with_name(f"{path.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def pytest_terminal_summary(terminalreporter):
    reports = [report for group in terminalreporter.stats.values() for report in group]
    found = [
        value
        for report in reports
        for name, value in getattr(report, "user_properties", [])
        if name == "execution" and report.when == "call"
    ]
    if found:
        terminalreporter.section("time per notebook")
        terminalreporter.write_line(run.table([run.Timing(*value) for value in found]))
