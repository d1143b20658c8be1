"""Every notebook, executed by nbmake: to the end, silent on stderr, every check."""

import os
from pathlib import Path

import nbformat
import pytest

from helpers.paths import ROOT
from tools import run
from tools.notebooks import is_appendix, sources
from tools.run import execute
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
    problems = list(executed(name, kind).problems)
    assert not problems, "\n".join(problems)


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
    path = notebook_of(cell, ("print('not reached')", CHECK), path=tmp_path / "bad.ipynb")
    found = execute(path, "reader", cell_limit=3).problems
    assert any(says in problem for problem in found), found
    assert not any("but ''" in problem for problem in found), found


def test_what_a_notebook_may_show_passes_and_a_solved_check_must_say_correct(tmp_path):
    raises = ("1 / 0", {"tags": ["raises-exception"]})
    path = notebook_of(
        "print(1)", raises, ("print('x: not attempted')", CHECK), path=tmp_path / "n.ipynb"
    )
    before = path.read_bytes()
    assert execute(path, "reader").problems == ()
    assert path.read_bytes() == before
    assert "did not say 'correct'" in execute(path, "solved").problems[0]


def test_the_solved_set_runs_as_under_nbgrader(tmp_path, monkeypatch):
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    source = "import os\nprint(os.environ.get('NBGRADER_EXECUTION'), 'correct', 'not attempted')"
    path = notebook_of(source, path=tmp_path / "n.ipynb")
    for kind, expected in (("solved", "autograde"), ("reader", "None")):
        done = execute(path, kind)
        assert done.notebook.cells[0].outputs[0].text.startswith(expected)
    assert "NBGRADER_EXECUTION" not in os.environ


def test_the_table_has_a_line_for_each_slow_cell(tmp_path):
    path = notebook_of("pass", "import time\ntime.sleep(2.1)", path=tmp_path / "n.ipynb")
    done = execute(path, "reader")
    (found,) = run.slow_cells(done.notebook)
    assert found[:2] == (2, "import time")
    assert 2.0 < found[2] < done.seconds
    lines = [line.split() for line in run.told(done).splitlines()]
    assert [line[:2] for line in lines] == [["n", "reader"], ["cell", "2"]]
    assert 10 < float(lines[0][4]) < 1000, "MB"
