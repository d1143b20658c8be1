"""A reader goes back and runs a section again: what it leaves behind must not change it."""

import nbformat
import pytest

from helpers.paths import ROOT
from tools import run
from tools.notebooks import sources

NAMES = [path.stem for path in sources(ROOT)]


@pytest.mark.notebook
@pytest.mark.part(of="notebooks")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", NAMES)
def test_every_section_can_be_run_twice(name):
    found = run.execute(run.location(name, "reader"), "reader", twice=True)
    assert list(found.problems) == []


def cells(*sources):
    made = [
        nbformat.v4.new_markdown_cell(source)
        if source.startswith("#")
        else nbformat.v4.new_code_cell(source)
        for source in sources
    ]
    return nbformat.v4.new_notebook(cells=made)


def test_the_code_of_a_section_comes_twice_in_its_order():
    notebook = cells("# Title", "a = 1", "## One", "b = a", "### Sub", "c = b", "## Two", "d = c")
    found = run.sections_twice(notebook)
    code = [cell.source for cell in found.cells if cell.cell_type == "code"]
    assert code == ["a = 1", "a = 1", "b = a", "c = b", "b = a", "c = b", "d = c", "d = c"]
    nbformat.validate(found)
    assert len(notebook.cells) == 8


@pytest.mark.notebook
def test_a_section_that_works_once_only_is_found(tmp_path):
    path = tmp_path / "once.ipynb"
    nbformat.write(cells("## One", "rows = [1, 2]", "## Two", "rows, n = rows[0], 3"), path)
    assert run.execute(path, "reader").problems == ()
    (problem,) = run.execute(path, "reader", twice=True).problems
    assert "raised TypeError" in problem
