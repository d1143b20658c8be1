"""nbgrader from release to grades: solved is full marks, untouched is zero."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbgrader.api import Gradebook

from helpers.paths import ROOT
from tools import course
from tools.notebooks import SourceError, sources

NAME = "00_start_here"
COMMANDS = """
import json, os, sys
from nbgrader.apps import NbGraderApp
for folder, *command in json.loads(sys.argv[1]):
    os.chdir(folder)
    app = NbGraderApp.instance()
    app.initialize(command)
    app.subapp.start()  # exits with an error if the command fails
    type(app.subapp).clear_instance()
    NbGraderApp.clear_instance()
"""


@pytest.fixture
def nbgrader(tmp_path):
    """``nbgrader([folder, command...], ...)``: what a teacher or a student types in a folder.

    One process for several commands, since nbgrader takes four seconds to load, and not this one,
    in which other tests have left their applications.
    """
    environment = os.environ | {
        "PATH": os.defpath,  # a teacher need not have activated the environment
        "HOME": str(tmp_path),
        "JUPYTER_DATA_DIR": str(tmp_path / "data"),
        "PYTHONPATH": str(ROOT),
    }

    def run(*commands: list[str]) -> None:
        done = subprocess.run(
            [sys.executable, "-c", COMMANDS, json.dumps(commands)],
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=1200,
        )
        assert done.returncode == 0, done.stdout

    return run


@pytest.fixture
def teacher(tmp_path):
    folder = tmp_path / "course"
    assert len(course.make(folder, (NAME,))) == 3
    with (folder / "nbgrader_config.py").open("a") as config:
        config.write(f"c.Exchange.root = {str(tmp_path / 'exchange')!r}\n")
    return folder


@pytest.mark.notebook
@pytest.mark.mpi
@pytest.mark.timeout(1500)
def test_release_collect_autograde(teacher, tmp_path, nbgrader):
    students = {name: tmp_path / name for name in ("ada", "ben")}
    for desk in students.values():
        desk.mkdir()
        shutil.copy(teacher / "nbgrader_config.py", desk)

    nbgrader(
        [str(teacher), "generate_assignment", NAME],
        [str(teacher), "release_assignment", NAME],
        *([str(desk), "fetch_assignment", NAME] for desk in students.values()),
    )
    released = nbformat.read(teacher / "release" / NAME / f"{NAME}.ipynb", 4)
    made = nbformat.read(ROOT / "notebooks" / f"{NAME}.ipynb", 4)
    assert [cell.source for cell in released.cells] == [
        course.among_assignments(cell.source) for cell in made.cells
    ]

    solve(students["ada"] / NAME / f"{NAME}.ipynb")
    nbgrader(
        *([str(desk), "submit", NAME, f"--student={name}"] for name, desk in students.items()),
        [str(teacher), "collect", NAME],
        [str(teacher), "autograde", NAME],
    )
    with Gradebook(f"sqlite:///{teacher / 'gradebook.db'}", teacher.name) as grades:
        marks = {student: grades.find_submission(NAME, student) for student in ("ada", "ben")}
        full = marks["ada"].max_score
        assert full == sum(
            cell.metadata.nbgrader.points
            for cell in made.cells
            if cell.metadata.get("nbgrader", {}).get("grade")
        )
        assert full > 0
        assert marks["ada"].score == full
        assert marks["ben"].score == 0
        assert not any(mark.needs_manual_grade for mark in marks.values())


@pytest.mark.timeout(600)
def test_every_notebook_is_released_and_its_links_lead_somewhere(tmp_path, nbgrader):
    folder = tmp_path / "course"
    course.make(folder)
    names = [path.stem for path in sources(ROOT)]
    nbgrader(*([str(folder), "generate_assignment", name] for name in names))
    for name in names:
        assignment = folder / "release" / name
        notebook = nbformat.read(assignment / f"{name}.ipynb", 4)
        made = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", 4)
        assert [cell.source for cell in notebook.cells] == [
            course.among_assignments(cell.source) for cell in made.cells
        ]
        texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
        texts.append((assignment / "glossary.md").read_text(encoding="utf-8"))
        prose = re.sub(r"```.*?```|`[^`\n]*`|\$[^$]*\$", "", "\n".join(texts), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s#]+)", prose):
            if not re.match(r"https?:|mailto:|attachment:", target):
                assert (assignment / target).exists(), f"{name} links to {target}"


def solve(path: Path) -> None:
    """Put the solutions into the exercises, as a student who knows everything types them."""
    notebook = nbformat.read(path, 4)
    solved = nbformat.read(ROOT / "notebooks" / "solutions" / path.name, 4)
    answers = {
        cell.metadata.nbgrader.grade_id: cell.source
        for cell in solved.cells
        if cell.metadata.get("nbgrader", {}).get("solution")
    }
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = answers[cell.metadata.nbgrader.grade_id]
    nbformat.write(notebook, path)


def test_a_course_folder_is_made_once(tmp_path, capsys):
    folder = tmp_path / "course"
    assert course.main([str(folder)]) == 0
    config = folder / "nbgrader_config.py"
    config.write_text("mine")
    assert course.make(folder) == []
    assert config.read_text() == "mine"
    assert "generate_assignment" in capsys.readouterr().out
    with pytest.raises(SourceError, match="no notebook '77'"):
        course.make(folder, ("77",))
    assert course.main([str(folder), "77"]) == 1
    assert "77" in capsys.readouterr().err
