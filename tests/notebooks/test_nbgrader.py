"""nbgrader from release to grades: solved is full marks, untouched is zero."""

import contextlib
import importlib
import os
import pkgutil
import re
import sys

import nbformat
import pytest
import requests
from nbformat.v4 import new_code_cell, new_notebook

from helpers import exercises, records
from helpers.paths import BENCH_RECORDS, ROOT
from tests.browser.driver import serving
from tools import course, grading
from tools.notebooks import SourceError, sources

NAMES = [path.stem for path in sources(ROOT)]


@pytest.fixture
def nbgrader(tmp_path):
    return lambda *commands: grading.nbgrader(tmp_path, *commands)


def worth(name):
    """Return the points of a notebook as it is now."""
    made = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", 4)
    graded = (cell.metadata.nbgrader for cell in made.cells if "nbgrader" in cell.metadata)
    return sum(marks.points for marks in graded if marks.get("grade"))


@pytest.mark.timeout(300)
def test_release_collect_autograde(tmp_path, small):
    assert grading.grade(tmp_path, small(), "77_two") == (1, 1, 0, False)


@pytest.mark.part(of="grading")
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("name", NAMES)
def test_every_notebook_is_full_marks_solved_and_zero_untouched(tmp_path, name):
    teacher = grading.open_course(tmp_path, [name])
    marks = grading.grade(tmp_path, teacher, name)
    points = worth(name)
    assert marks == (points, points, 0, False)
    assert marks.right


@pytest.mark.parametrize(
    "marks", [(3, 2, 0, False), (3, 3, 1, False), (0, 0, 0, False), (3, 3, 0, True)]
)
def test_marks_that_are_not_right(marks):
    assert not grading.Marks(*marks).right


def test_what_came_out_is_recorded(tmp_path, monkeypatch, capsys):
    def graded(place, teacher, name):
        if name.startswith("00"):
            return grading.Marks(4, 4, 0, False)
        raise grading.GradingError("no exchange")

    monkeypatch.setattr(grading, "grade", graded)
    assert grading.main(["00", "01", "--out", str(tmp_path)]) == 1
    (record,) = records.load(tmp_path)
    right, failed = record.suites["grading"]
    assert record.command == "python -m tools.grading 00 01"
    assert (right.name, right.value, right.unit) == ("00_start_here", 4, "points")
    assert (right.parameters["right"], right.parameters["error"]) == (True, "")
    assert (failed.value, failed.parameters["right"]) == (0, False)
    assert "no exchange" in failed.parameters["error"]
    assert "no exchange" in capsys.readouterr().err
    assert grading.main(["00", "--out", str(tmp_path)]) == 0


def test_every_link_of_an_assignment_leads_to_another(tmp_path):
    course.make(tmp_path)
    for name in NAMES:
        assignment = tmp_path / "source" / name
        notebook = nbformat.read(assignment / f"{name}.ipynb", 4)
        texts = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
        texts.append((assignment / "glossary.md").read_text(encoding="utf-8"))
        prose = re.sub(r"```.*?```|`[^`\n]*`|\$[^$]*\$", "", "\n".join(texts), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s#]+)", prose):
            if not re.match(r"https?:|mailto:|attachment:", target):
                assert (assignment / target).exists(), f"{name} links to {target}"


def test_nbgrader_waits_longer_than_any_check_and_the_last_is_not_cut_off():
    limits = [
        each.time_limit
        for module in pkgutil.iter_modules(exercises.__path__)
        for each in vars(importlib.import_module(f"helpers.exercises.{module.name}")).values()
        if isinstance(each, exercises.core.Exercise)
    ]
    (seconds,) = re.findall(r"^c\.Execute\.timeout = (\d+)", course.CONFIG, re.MULTILINE)
    assert len(limits) > 50
    assert int(seconds) >= 2 * max(limits)


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


def test_teaching_names_the_notebooks_that_a_record_shows_graded():
    """Graded as they were on that day: exercises that came later need no new record."""
    shown = {
        row.name[:2]
        for one in records.load(BENCH_RECORDS, "grading")
        for row in one.suites["grading"]
        if row.parameters.get("right")
    }
    teaching = (ROOT / "TEACHING.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"^Records in `data/bench/` show this for ([^;.]+)", teaching, re.M)
    named = re.findall(r"\d\d", said)
    assert len(named) >= 10  # 05, 14 and 15 are new
    assert set(named) <= shown


@pytest.fixture
def small(tmp_path):
    """Make a teacher's folder with one small notebook of one exercise."""
    marks = {"schema_version": 3, "task": False, "locked": False, "grade": False, "solution": False}
    exercise = marks | {"grade_id": "two", "solution": True}
    check = marks | {"grade_id": "two-check", "grade": True, "locked": True, "points": 1}
    text = "# BEGIN SOLUTION\ntwo = 2\n# END SOLUTION"
    notebook = new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python"}})
    notebook.cells = [
        new_code_cell(text, metadata={"nbgrader": exercise}),
        new_code_cell("assert two == 2", metadata={"nbgrader": check}),
    ]
    folder = tmp_path / "root" / "notebooks"
    for path, content in {
        "source/77_two.py": "",
        "solutions/77_two.ipynb": nbformat.writes(notebook),
        "glossary.md": "",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content)

    def made(*, written=False):
        teacher = grading.open_course(tmp_path, ["00"])
        course.make(teacher, root=tmp_path / "root", written=written)
        return teacher

    return made


@pytest.mark.part(of="grading")
@pytest.mark.timeout(300)
def test_a_written_answer_waits_for_a_person_who_marks_it(tmp_path, nbgrader, small):
    from nbgrader.api import Gradebook

    small = small(written=True)
    name, teacher, ada, ben = "77_two", str(small), str(tmp_path / "ada"), str(tmp_path / "ben")
    nbgrader(
        [teacher, "generate_assignment", name],
        [teacher, "release_assignment", name],
        [ada, "fetch_assignment", name],
        [ben, "fetch_assignment", name],
    )
    path = tmp_path / "ada" / name / f"{name}.ipynb"
    notebook = nbformat.read(path, 4)
    exercise, _, question, answer = notebook.cells
    assert "only that cause changes" in question.source
    assert answer.source == "YOUR ANSWER HERE"
    exercise.source, answer.source = "two = 2", "I predicted 3 s; it took 2 s."
    nbformat.write(notebook, path)
    nbgrader(
        [ada, "submit", name, "--student=ada"],
        [ben, "submit", name, "--student=ben"],
        [teacher, "collect", name],
        [teacher, "autograde", name],
    )

    def marks(student):
        with Gradebook(f"sqlite:///{small / 'gradebook.db'}", small.name) as grades:
            found = grades.find_submission(name, student)
            return found.score, found.max_score, found.needs_manual_grade

    assert marks("ada") == (1, 1 + course.POINTS, True)
    assert marks("ben") == (0, 1 + course.POINTS, False)
    with formgrader(tmp_path, small) as ask:
        submissions = ask("get", f"api/submitted_notebooks/{name}/{name}").json()
        (hers,) = (one["id"] for one in submissions if one["needs_manual_grade"])
        page = ask("get", f"submissions/{hers}/").text
        assert "it took 2 s" in page
        assert "only that cause changes" in page
        grades = ask("get", f"api/grades?submission_id={hers}").json()
        (written,) = (one for one in grades if one["name"] == "written-answer")
        ask("put", f"api/grade/{written['id']}", json={"manual_score": 3, "extra_credit": 0})
    assert marks("ada") == (4, 1 + course.POINTS, False)
    nbgrader([teacher, "generate_feedback", name], [teacher, "export"])
    assert (small / "feedback" / "ada" / name / f"{name}.html").exists()
    assert re.search(r"77_two,.*\bada\b.*,4\.0,", (small / "grades.csv").read_text())
    nbgrader([teacher, "autograde", name, "--force"])
    assert marks("ada") == (4, 1 + course.POINTS, True)


@pytest.mark.part(of="grading")
@pytest.mark.timeout(300)
def test_a_cell_without_end_costs_what_it_is_worth_and_no_more(tmp_path, nbgrader, small):
    from nbgrader.api import Gradebook

    small = small()
    with (small / "nbgrader_config.py").open("a") as config:
        config.write("c.Execute.timeout = 5\n")
    nbgrader([str(small), "generate_assignment", "77_two"])
    released = small / "release" / "77_two" / "77_two.ipynb"
    notebook = nbformat.read(released, 4)
    notebook.cells[0].source = "two = 2"
    notebook.cells.insert(0, new_code_cell("while True:\n    pass"))
    handed_in = small / "submitted" / "ada" / "77_two" / released.name
    handed_in.parent.mkdir(parents=True)
    nbformat.write(notebook, handed_in)
    nbgrader([str(small), "autograde", "77_two"])
    with Gradebook(f"sqlite:///{small / 'gradebook.db'}", small.name) as grades:
        assert grades.find_submission("77_two", "ada").score == 1


@contextlib.contextmanager
def formgrader(home, folder):
    """Open JupyterLab's server in the teacher's folder; yields a way to ask nbgrader's pages."""
    options = ["--no-browser", "--allow-root", "--ip=127.0.0.1", "--port=0", "--log-level=ERROR"]
    runtime = home / "runtime"
    environment = os.environ | {
        "HOME": str(home),
        "JUPYTER_TOKEN": "a-token",
        "JUPYTER_RUNTIME_DIR": str(runtime),
    }
    command = [sys.executable, "-m", "jupyter", "lab", *options]
    with serving(command, runtime, home / "lab.log", cwd=folder, env=environment) as said:

        def ask(method, page, **more):
            header = {"Authorization": "token a-token"}
            address = f"{said['url']}formgrader/{page}"
            answer = requests.request(method, address, headers=header, timeout=60, **more)
            answer.raise_for_status()
            return answer

        yield ask
