"""A lesson (a heading "Lesson 1. ...") runs after the set-up alone."""

import copy
import re

import nbformat
import pytest

from helpers.paths import ROOT
from tools.notebooks import build, sources
from tools.run import execute

SOURCES = {path.stem: path for path in sources(ROOT)}
LESSONS = [
    (name, lesson)
    for name, path in SOURCES.items()
    for lesson in re.findall(r"^# ## (Lesson \d+)\b", path.read_text("utf-8"), re.MULTILINE)
]
pytestmark = [pytest.mark.notebook, pytest.mark.timeout(900)]


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


def test_a_lesson_alone_is_the_set_up_and_its_own_cells():
    text, code = nbformat.v4.new_markdown_cell, nbformat.v4.new_code_cell
    cells = [text("# Title\n\n## Set-up"), code("a = 1"), text("## Lesson 1. Why?"), code("b = a")]
    cells += [text("> Answer.\n\n## Lesson 2. How?\n\n### By hand"), code("c = a")]
    cells += [text("## In practice"), code("d = a")]
    notebook = nbformat.v4.new_notebook(cells=cells)
    for lesson, codes in (("Lesson 1", ["a = 1", "b = a"]), ("Lesson 2", ["a = 1", "c = a"])):
        kept = [cell.source for cell in alone(notebook, lesson).cells if cell.cell_type == "code"]
        assert kept == codes
