"""`make lab` on a free port, and Chromium to look at it; both always end."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from helpers.paths import ROOT
from tests.browser.driver import OpenNotebook, serving, write

START = """
import sys, pathlib
from tools.work import main
main(sys.argv[2:], pathlib.Path(sys.argv[1]))
"""


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab: its address, its token, and the folder that it shows."""

    url: str
    token: str
    work: Path

    def address(self, name: str) -> str:
        """Return the address of a file in a workspace of its own: a tab with nothing else open."""
        return f"{self.url}lab/workspaces/{Path(name).stem}/tree/{name}?token={self.token}"


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """JupyterLab as `make lab` starts it, for a reader with a new home and no settings."""
    home = tmp_path_factory.mktemp("reader")
    (home / "course").mkdir()
    (home / "course" / "notebooks").symlink_to(ROOT / "notebooks")
    environment = {name: value for name, value in os.environ.items() if "JUPYTER" not in name}
    environment |= {"HOME": str(home), "PYTHONPATH": str(ROOT), "IPYTHONDIR": str(home / "ipython")}
    environment |= {"JUPYTER_RUNTIME_DIR": str(home / "runtime")}
    options = ["--no-browser", "--ServerApp.port=0", "--LabApp.expose_app_in_browser=True"]
    command = [sys.executable, "-c", START, str(home / "course"), "lab", *options]
    with serving(command, home / "runtime", home / "lab.log", cwd=home, env=environment) as said:
        yield Lab(said["url"], said["token"], home / "course" / "work")


@pytest.fixture
def opened(browser, lab):
    """``opened(name, cells)``: a notebook beside the reader's copies, which others count.

    Without cells, the one of that name once more.
    """
    notebooks = []

    def open_(name: str, cells: list | None = None) -> OpenNotebook:
        if cells is not None:
            write(lab.work / name / f"{name}.ipynb", cells)
        notebooks.append(OpenNotebook(browser, lab, f"{name}/{name}"))
        return notebooks[-1]

    yield open_
    for notebook in notebooks:
        notebook.context.close()
        shutil.rmtree(lab.work / Path(notebook.name).parent, ignore_errors=True)
    assert [notebook.errors for notebook in notebooks] == [[] for _ in notebooks]


@pytest.fixture
def page(browser):
    """An empty page without motion, in which no script fails."""
    page, errors = browser.new_page(reduced_motion="reduce"), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    page.close()
    assert errors == []
