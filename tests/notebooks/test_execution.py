"""Every notebook, executed by nbmake: to the end, silent on stderr, every check."""

import os
import re
import threading
from pathlib import Path

import nbformat
import psutil
import pytest
from nbclient import NotebookClient

from helpers.paths import ROOT
from tools import replies, run
from tools.notebooks import is_appendix, sources
from tools.run import execute, problems
from tools.silence import LIMIT, silent_cells

NAMES = [path.stem for path in sources(ROOT)]
EDITIONS = [
    pytest.param(
        name,
        kind,
        marks=[pytest.mark.part(of="notebooks")] * (kind == "reader" or is_appendix(name)),
    )
    for kind in ("solved", "reader")
    for name in NAMES
]
pytestmark = [pytest.mark.notebook, pytest.mark.timeout(900)]


@pytest.mark.parametrize(("name", "kind"), EDITIONS)
def test_runs_to_the_end(name, kind, executed):
    assert list(executed(name, kind).problems) == []


@pytest.mark.parametrize(("name", "kind"), EDITIONS)
def test_no_cell_says_nothing_for_long(name, kind, executed):
    """Three times the limit: a busy machine is late, and ``data/bench`` has it from a quiet one."""
    assert silent_cells(executed(name, kind).notebook, 3 * LIMIT) == []


@pytest.mark.parametrize("name", NAMES)
def test_the_readers_notebook_is_the_solved_one_but_for_its_exercises(name):
    """So ``make test`` executes one of the two."""
    solved, reader = (nbformat.read(run.location(name, kind), 4) for kind in ("solved", "reader"))
    differ = [
        (left, right)
        for left, right in zip(solved.cells, reader.cells, strict=True)
        if left != right
    ]
    assert all(left.metadata.nbgrader.solution for left, _ in differ)
    assert all(left | {"source": right.source} == right for left, right in differ)


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
    rows = [run.Timing("01_a", kind, 2.5, 120, ()) for kind in ("reader", "solved")]
    lines = [line.split() for line in run.table(rows).splitlines()[1:]]
    assert lines == [["01_a", kind, "2.5", "s", "120", "MB"] for kind in ("reader", "solved")]


def test_the_table_has_a_line_for_each_slow_cell(tmp_path):
    path = notebook_of("pass", "import time\ntime.sleep(2.1)", path=tmp_path / "n.ipynb")
    done = execute(path, "reader")
    (found,) = run.slow_cells(done.notebook)
    assert found[:2] == (2, "import time")
    assert 2.1 <= found[2] < done.seconds
    lines = run.table([done.timing]).splitlines()
    assert len(lines) == 3
    assert lines[2].split()[:2] == ["cell", "2"]


@pytest.mark.mpi
def test_two_notebooks_at_once_each_with_its_own_ranks(tmp_path):
    """Both kernels live together, in working directories of their own; the magic finds its ranks.

    (The browser test does so with two whole notebooks.)
    """
    replies.install()
    meeting = threading.Barrier(2, timeout=300)
    done, errors = {}, []

    def run_one(folder: Path) -> None:
        try:
            load = "%load_ext helpers.cluster\nfrom helpers.cluster import Cluster\n"
            start = f"{load}cluster = Cluster(n=3)"
            ask = "%%ranks\nimport os\nprint('pid', os.getpid(), comm.allreduce(rank))"
            path = notebook_of(start, ask, ask, "cluster.stop()", path=folder / "n.ipynb")
            notebook = nbformat.read(path, 4)
            client = NotebookClient(
                notebook, timeout=300, resources={"metadata": {"path": str(folder)}}
            )
            # no cell goes on before the other notebook has come as far
            client.on_cell_executed = lambda **cell: meeting.wait()
            client.execute()
            done[folder] = notebook
        except BaseException as error:  # a thread's error would be lost
            meeting.abort()
            errors.append(error)

    folders = [tmp_path / "one", tmp_path / "two words"]
    for folder in folders:
        folder.mkdir()
    threads = [threading.Thread(target=run_one, args=(folder,)) for folder in folders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert errors == []
    assert [problems(done[folder], "reader") for folder in folders] == [[], []]
    found = []
    for folder in folders:
        texts = ["".join(o.text for o in done[folder].cells[n].outputs) for n in (1, 2)]
        assert texts[0] == texts[1], "the second cell ran on other ranks than the first"
        said = re.findall(r"^\[(\d)\] pid (\d+) (\d+)$", texts[0], re.M)
        assert [(rank, total) for rank, _, total in said] == [("0", "3"), ("1", "3"), ("2", "3")]
        found.append({int(pid) for _, pid, _ in said})
    assert len(found[0] | found[1]) == 6, "the notebooks shared ranks"
    alive = [psutil.Process(pid) for pid in found[0] | found[1] if psutil.pid_exists(pid)]
    _, left = psutil.wait_procs(alive, timeout=10)  # mpiexec needs a moment to end them
    assert left == [], "ranks were left behind"
