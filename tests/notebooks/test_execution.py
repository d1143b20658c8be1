"""Every notebook of both sets, executed by nbmake: to the end, silent on stderr, every check."""

import os
import shutil
import threading
from pathlib import Path

import nbformat
import psutil
import pytest
from nbclient import NotebookClient

from tools import run
from tools.notebooks import ROOT, sources
from tools.run import execute, location, problems

NAMES = [path.stem for path in sources(ROOT)]
pytestmark = [pytest.mark.notebook, pytest.mark.timeout(900)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", ["reader", "solved"])
def test_runs_to_the_end(name, kind, executed):
    assert list(executed(name, kind).problems) == []


def notebook_of(*cells, path: Path):
    """Write a notebook of code cells, each given as source or (source, metadata)."""
    made = []
    for cell in cells:
        source, metadata = cell if isinstance(cell, tuple) else (cell, {})
        made.append(nbformat.v4.new_code_cell(source, metadata=metadata))
    nbformat.write(nbformat.v4.new_notebook(cells=made), path)
    return path


CHECK = {"nbgrader": {"grade": True}}


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("1 / 0", "cell 1 (1 / 0) raised ZeroDivisionError"),
        ("import sys\nprint('careful', file=sys.stderr)", "wrote to stderr: careful"),
        ("import warnings\nwarnings.warn('old')", "UserWarning: old"),
        (("print('x: correct')", CHECK), "did not say 'not attempted' but 'x: correct'"),
        ("import os\nos._exit(1)", "died"),
        ("import time\ntime.sleep(30)", "timed out"),
    ],
)
def test_what_a_notebook_must_not_show_is_found(cell, says, tmp_path):
    path = notebook_of(cell, path=tmp_path / "bad.ipynb")
    found = execute(path, "reader", cell_limit=3).problems
    assert any(says in problem for problem in found), found


def test_what_a_notebook_may_show_passes(tmp_path):
    raises = ("1 / 0", {"tags": ["raises-exception"]})
    path = notebook_of(
        "print(1)", raises, ("print('x: not attempted')", CHECK), path=tmp_path / "n.ipynb"
    )
    before = path.read_bytes()
    assert execute(path, "reader").problems == ()
    assert path.read_bytes() == before


def test_the_solved_set_runs_as_under_nbgrader(tmp_path, monkeypatch):
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    source = "import os\nprint(os.environ.get('NBGRADER_EXECUTION'), 'correct', 'not attempted')"
    path = notebook_of(source, path=tmp_path / "n.ipynb")
    for kind, expected in (("solved", "autograde"), ("reader", "None")):
        done = execute(path, kind)
        assert done.notebook.cells[0].outputs[0].text.startswith(expected)
    assert "NBGRADER_EXECUTION" not in os.environ


def test_problems_of_a_solved_check(tmp_path):
    path = notebook_of(("print('x: not attempted')", CHECK), path=tmp_path / "n.ipynb")
    assert "did not say 'correct'" in execute(path, "solved").problems[0]


def test_the_table_has_both_sets():
    rows = [run.Execution("01_a", kind, None, 2.5, ()) for kind in ("reader", "solved")]
    assert run.table(rows).splitlines()[1].split() == ["01_a", "2.5", "s", "2.5", "s"]


@pytest.mark.mpi
def test_two_notebooks_at_once_each_with_its_own_ranks(tmp_path):
    """Both kernels live together; each from a working directory of its own that is not ours."""
    name = "01_mpi_basics" if "01_mpi_basics" in NAMES else NAMES[0]
    clients, errors = [], []

    def run_one(folder: Path) -> None:
        try:
            shutil.copy(location(name, "reader"), folder)
            notebook = nbformat.read(folder / f"{name}.ipynb", 4)
            pids = "import os\ncluster.run(os.getpid)"
            notebook.cells.insert(-1, nbformat.v4.new_code_cell(pids))
            resources = {"metadata": {"path": str(folder)}}
            NotebookClient(notebook, timeout=300, resources=resources).execute()
            clients.append(notebook)
        except BaseException as error:  # a thread's error would be lost
            errors.append(error)

    folders = [tmp_path / "one", tmp_path / "two words"]
    for folder in folders:
        folder.mkdir()
    threads = [threading.Thread(target=run_one, args=(folder,)) for folder in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(800)
    assert errors == []
    assert [problems(notebook, "reader") for notebook in clients] == [[], []]
    pids = [set(eval(notebook.cells[-2].outputs[0].data["text/plain"])) for notebook in clients]
    assert not pids[0] & pids[1], "the notebooks shared ranks"
    assert all(len(found) > 1 for found in pids)
    left = [pid for pid in pids[0] | pids[1] if psutil.pid_exists(pid)]
    assert left == [], "ranks were left behind"
