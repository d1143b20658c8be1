"""Executed notebooks, each once for all tests of all workers, and their times at the end."""

import contextlib
import fcntl
import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from helpers.paths import ROOT
from tools import run
from tools.notebooks import is_appendix, sources
from tools.site import sources as site_sources
from tools.site.__main__ import build
from tools.site.generated import LIBRARIES

STATES = 1.0  # seconds for the states of a widget
EXECUTION = "test_runs_to_the_end"  # of a whole notebook
FEW = ("timing",)  # libraries that have a page in `make test`: all take a third of Sphinx's time


@pytest.fixture(scope="session")
def place(tmp_path_factory) -> Path:
    """The folder that the workers of one run share, and so does what tries again what failed."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base
    folder = Path(os.environ.get("EXECUTED", base / "executed"))
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def executed(place, record_property, request):
    """``executed(name)``: the solved notebook, executed once for the whole run, or another set's.

    With its states, as for the site, but few: the tests look at how they are shown.
    """
    tried_again = (
        getattr(request.config.option, "lf", False) and request.path.name == "test_execution.py"
    )

    def get(name: str, kind: str = "solved") -> run.Execution:
        path = place / f"{name}-{kind}"
        with _turn(path):
            if tried_again or not path.exists():
                states = STATES if kind == "solved" else 0
                done = run.execute(run.location(name, kind), kind, states=states)
                path.write_bytes(pickle.dumps(done))
                record_property("execution", run.told(done))
        return pickle.loads(path.read_bytes())

    return get


@pytest.fixture
def built(place, executed, request):
    """The site over all notebooks, built once for the whole run, and Sphinx's complaints.

    Appendices have their outputs, and the other libraries their pages, in the part `site` of
    `make test-all`.
    """
    everything = request.node.get_closest_marker("part") is not None
    folder = place / "built" / "site"
    said = place / "site.txt"
    with _turn(place / "site"):
        if not said.exists():
            notebooks = {
                path.stem: executed(path.stem).notebook
                if everything or not is_appendix(path.stem)
                else nbformat.read(run.location(path.stem, "solved"), 4)
                for path in sources(ROOT)
            }
            libraries = LIBRARIES if everything else FEW
            site_sources.write(place / "site-sources", notebooks, libraries)
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
        terminalreporter.write_line("\n".join([run.HEAD, *sorted(found)]))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Put the executions, which take longest, where each worker's share of the tests begins."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
    longest = [item for item in items if getattr(item, "originalname", "") == EXECUTION]
    others = [item for item in items if item not in set(longest)]
    size = -(-len(others) // workers)
    items[:] = [
        item
        for number in range(workers)
        for item in longest[number::workers] + others[number * size : (number + 1) * size]
    ]
