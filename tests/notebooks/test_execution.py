"""Every notebook, executed by nbmake: to its end, silent on stderr, never quiet for long, twice."""

import copy
import os
import re
from pathlib import Path

import nbformat
import pytest

from helpers.paths import ROOT
from tools import run
from tools.notebooks import build, is_appendix, sources
from tools.run import execute
from tools.silence import LIMIT, silent_cells

SOURCES = {path.stem: path for path in sources(ROOT)}
NAMES = list(SOURCES)
EDITIONS = [
    pytest.param(
        name,
        kind,
        marks=[pytest.mark.part(of="notebooks")] * (kind == "reader" or is_appendix(name)),
    )
    for kind in ("solved", "reader")
    for name in NAMES
]
pytestmark = [pytest.mark.notebook, pytest.mark.timeout(1800)]


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


SLEEP = "from time import sleep\nsleep({})"
CELLS = {
    "silent": SLEEP.format(1.5),
    "at the end": SLEEP.format(1.5) + "\nprint('done')",
    "at the start": "print('begins')\n" + SLEEP.format(1.5),
    "all the time": "from time import sleep\nfor k in range(5):\n    print(k); sleep(0.3)",
    "updated": (
        "from time import sleep\nfrom IPython.display import display\n"
        "shown = display('0', display_id=True)\n"
        "for k in range(5):\n    shown.update(str(k)); sleep(0.3)"
    ),
    "formatted": (
        "class Slow:\n    def __repr__(self):\n"
        "        for k in range(5):\n            shown.update(str(k)); sleep(0.3)\n"
        "        return 'slow'\nSlow()"
    ),
    "short": "1",
}


@pytest.fixture(scope="module", params=["dates", "their text"])
def watched(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("silence") / "n.ipynb"
    cells = [nbformat.v4.new_code_cell(text) for text in CELLS.values()]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "their text":  # as where ipyparallel was imported: it parses its own
            patch.setattr("jupyter_client.session.extract_dates", lambda header: header)
        return execute(path, "reader").notebook


def test_a_cell_that_says_nothing_for_long_is_found(watched):
    found = silent_cells(watched, 1.2)
    assert [list(CELLS)[cell.number - 1] for cell in found] == [
        *("silent", "at the end", "at the start")
    ]
    assert all(1.2 < cell.longest < 5 for cell in found)
    assert found[0].line == "from time import sleep"


def test_what_is_measured_is_no_fault_of_the_file(watched):
    nbformat.validate(watched)
    assert silent_cells(watched) == []


def test_a_kernel_starts_without_a_warning(tmp_path, capfd):
    path = tmp_path / "n.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")]), path)
    assert execute(path, "reader").problems == ()
    assert "encryption" not in capfd.readouterr().err


LESSONS = [
    (name, lesson)
    for name, path in SOURCES.items()
    for lesson in re.findall(r"^# ## (Lesson \d+)\b", path.read_text("utf-8"), re.MULTILINE)
]


def alone(notebook, lesson):
    """Return what stands before the first lesson, and one lesson.

    A cell of text may hold the end of one part and the head of the next; no code is lost by that.
    """
    kept, part = [], ""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            for head in re.findall(r"^## (.*)$", cell.source, re.MULTILINE):
                part = head if part or head.startswith("Lesson") else ""
        if not part or part.split(".")[0] == lesson:
            kept.append(copy.deepcopy(cell))
    return nbformat.from_dict({**notebook, "cells": kept})


@pytest.mark.part(of="notebooks")
@pytest.mark.parametrize(("name", "lesson"), LESSONS)
def test_a_lesson_runs_after_the_set_up_alone(name, lesson, tmp_path):
    made = alone(build(SOURCES[name])[1], lesson)
    path = tmp_path / f"{name}.ipynb"
    nbformat.write(made, path)
    assert list(execute(path, "solved").problems) == []


@pytest.mark.part(of="notebooks")
@pytest.mark.parametrize("name", SOURCES)
def test_every_section_can_be_run_twice(name):
    found = execute(run.location(name, "reader"), "reader", twice=True)
    assert list(found.problems) == []


def cells(*texts):
    """Return a notebook of these cells: text, where one begins with a heading or an answer."""
    text, code = nbformat.v4.new_markdown_cell, nbformat.v4.new_code_cell
    made = [text(one) if one.startswith(("#", ">")) else code(one) for one in texts]
    return nbformat.v4.new_notebook(cells=made)


def codes(notebook):
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def test_the_code_of_a_section_comes_twice_in_its_order():
    end = "cluster.stop()"
    notebook = cells("# Title", "a = 1", "## One", "b = a", "### Sub", "c = b", "## Two", "d", end)
    found = run.sections_twice(notebook)
    twice = ["a = 1", "a = 1", "b = a", "c = b", "b = a", "c = b", "d", "d", end, end]
    assert codes(found) == twice
    nbformat.validate(found)
    assert len(notebook.cells) == 9


def test_a_section_that_works_once_only_is_found(tmp_path):
    path = tmp_path / "once.ipynb"
    nbformat.write(cells("## One", "rows = [1, 2]", "## Two", "rows, n = rows[0], 3"), path)
    assert execute(path, "reader").problems == ()
    (problem,) = execute(path, "reader", twice=True).problems
    assert "raised TypeError" in problem
