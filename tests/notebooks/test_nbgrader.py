"""nbgrader from release to grades: solved is full marks, untouched is zero."""

import re

import nbformat
import pytest

from helpers.paths import ROOT
from tools import course, grading
from tools.notebooks import SourceError, sources

QUICK = ("00_start_here", "01_mpi_basics", "09_computation_graphs")  # the others: `make grading`


@pytest.fixture
def nbgrader(tmp_path):
    return lambda *commands: grading.nbgrader(tmp_path, *commands)


@pytest.mark.notebook
@pytest.mark.mpi
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("name", QUICK)
def test_release_collect_autograde(tmp_path, name):
    teacher = grading.open_course(tmp_path, [name])
    marks = grading.grade(tmp_path, teacher, name)
    made = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", 4)
    points = sum(
        cell.metadata.nbgrader.points
        for cell in made.cells
        if cell.metadata.get("nbgrader", {}).get("grade")
    )
    assert marks == (points, points, 0, False)
    assert marks.right


@pytest.mark.parametrize(
    "marks", [(3, 2, 0, False), (3, 3, 1, False), (0, 0, 0, False), (3, 3, 0, True)]
)
def test_marks_that_are_not_right(marks):
    assert not grading.Marks(*marks).right


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
