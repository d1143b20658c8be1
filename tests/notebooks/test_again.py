"""A reader starts in the middle, or goes back: a lesson runs alone, a section runs again."""

import copy
import re

import nbformat
import pytest

from helpers.paths import ROOT
from tools import run
from tools.notebooks import build, sources

SOURCES = {path.stem: path for path in sources(ROOT)}
LESSONS = [
    (name, lesson)
    for name, path in SOURCES.items()
    for lesson in re.findall(r"^# ## (Lesson \d+)\b", path.read_text("utf-8"), re.MULTILINE)
]
pytestmark = [pytest.mark.notebook, pytest.mark.timeout(1800)]


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
    assert list(run.execute(path, "solved").problems) == []


@pytest.mark.part(of="notebooks")
@pytest.mark.parametrize("name", SOURCES)
def test_every_section_can_be_run_twice(name):
    found = run.execute(run.location(name, "reader"), "reader", twice=True)
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
    assert run.execute(path, "reader").problems == ()
    (problem,) = run.execute(path, "reader", twice=True).problems
    assert "raised TypeError" in problem
