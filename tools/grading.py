"""Grade notebooks as a class does, with nbgrader: ``make grading``, ``make grading NB=01``.

A teacher releases each, two students fetch it, one puts the solutions in and one leaves it as it
is, both submit, the teacher collects and autogrades. The first must have full marks, the second
none, and no cell may wait for a person. All of it happens in a folder that is gone afterwards. What
came out is printed and written to ``data/bench/``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import nbformat

from helpers import records
from helpers.paths import BENCH_RECORDS, ROOT
from tools import course
from tools.notebooks import asked_for
from tools.run import location

SOLVER, IDLER = "ada", "ben"
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


class GradingError(RuntimeError):
    """A command of nbgrader that fails; the message is what it printed."""


class Marks(NamedTuple):
    """What a notebook is worth, what the two students got, and whether a person must look."""

    full: float
    solved: float
    untouched: float
    by_hand: bool

    @property
    def right(self) -> bool:
        """Whether the solutions get all there is, and nothing gets nothing."""
        return self.solved == self.full > 0 == self.untouched and not self.by_hand


def nbgrader(home: Path, *commands: list[str]) -> None:
    """Do what a teacher or a student types: each command is a folder and nbgrader's words.

    One process for several, since nbgrader takes four seconds to load. Raise GradingError if one
    fails.
    """
    environment = os.environ | {
        "PATH": os.defpath,  # a teacher need not have activated the environment
        "HOME": str(home),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, json.dumps(commands)],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode:
        raise GradingError(done.stdout)


def open_course(place: Path, names: Iterable[str], variant: int = 0) -> Path:
    """Make a teacher's folder, the exchange and two students' folders; return the teacher's."""
    teacher = place / "course"
    course.make(teacher, tuple(names), variant=variant)
    with (teacher / "nbgrader_config.py").open("a") as config:
        config.write(f"c.Exchange.root = {str(place / 'exchange')!r}\n")
    for name in (SOLVER, IDLER):
        (place / name).mkdir()
        shutil.copy(teacher / "nbgrader_config.py", place / name)
    return teacher


def grade(place: Path, teacher: Path, name: str, *, copied: bool = False) -> Marks:
    """Take one notebook from release to grades.

    The first student types the solutions of the teacher's folder. The second does nothing, or has
    ``copied`` the published solutions, which in a variant of the course are worth nothing.
    """
    from nbgrader.api import Gradebook

    desks = {student: str(place / student) for student in (SOLVER, IDLER)}
    nbgrader(
        place,
        [str(teacher), "generate_assignment", name],
        [str(teacher), "release_assignment", name],
        *([desk, "fetch_assignment", name] for desk in desks.values()),
    )
    solve(place / SOLVER / name / f"{name}.ipynb", teacher / "source" / name / f"{name}.ipynb")
    if copied:
        solve(place / IDLER / name / f"{name}.ipynb", location(name, "solved"))
    nbgrader(
        place,
        *([desk, "submit", name, f"--student={student}"] for student, desk in desks.items()),
        [str(teacher), "collect", name],
        [str(teacher), "autograde", name],
    )
    with Gradebook(f"sqlite:///{teacher / 'gradebook.db'}", teacher.name) as grades:
        ada, ben = (grades.find_submission(name, student) for student in (SOLVER, IDLER))
        by_hand = ada.needs_manual_grade or ben.needs_manual_grade
        return Marks(ada.max_score, ada.score, ben.score, by_hand)


def solve(path: Path, solved: Path) -> None:
    """Put the solutions of a solved notebook into the exercises, as a student types them."""
    notebook = nbformat.read(path, 4)
    answers = {
        cell.metadata.nbgrader.grade_id: cell.source
        for cell in nbformat.read(solved, 4).cells
        if cell.metadata.get("nbgrader", {}).get("solution")
    }
    for cell in notebook.cells:
        if cell.metadata.get("nbgrader", {}).get("solution"):
            cell.source = answers[cell.metadata.nbgrader.grade_id]
    nbformat.write(notebook, path)


def measured(teacher: Path, name: str) -> records.Row:
    """Grade one notebook, print its line, and return its points as a row of a record."""
    begin = time.perf_counter()
    try:
        marks, error = grade(teacher.parent, teacher, name), ""
    except GradingError as failed:
        marks, error = Marks(0, 0, 0, False), str(failed).replace(f"{teacher.parent}/", "")
    seconds = time.perf_counter() - begin
    note = "" if marks.right else "  <- expected full marks and none"
    figures = f"{marks.full:6g} {marks.solved:6g} {marks.untouched:9g} {seconds:7.0f}{note}"
    print(f"{name:34} {figures}", flush=True)
    if error:
        print(f"{name}: {error}", file=sys.stderr)
    about = {
        "points": marks.full,
        "untouched": marks.untouched,
        "waits for a person": marks.by_hand,
        "right": marks.right,
        "seconds": round(seconds),
    }
    return records.Row(name, marks.solved, "points", parameters=about | {"error": error[-300:]})


def main(arguments: list[str] | None = None) -> int:
    """Command line: a line for each notebook; 1 unless all have full marks and none."""
    parser = argparse.ArgumentParser(prog="python -m tools.grading", description=__doc__)
    parser.add_argument("only", nargs="*", metavar="NN", help="numbers or names (default: all)")
    parser.add_argument("--out", type=Path, default=BENCH_RECORDS, help="folder of the record")
    options = parser.parse_args(arguments)
    names = asked_for(parser, options.only)
    print(
        f"{'notebook':34} {'points':>6} {'solved':>6} {'untouched':>9} {'seconds':>7}", flush=True
    )
    with tempfile.TemporaryDirectory(prefix="grading-") as folder:
        teacher = open_course(Path(folder), names)
        rows = [measured(teacher, name) for name in names]
    command = " ".join(["python -m tools.grading", *options.only])
    written = records.write(records.make({"grading": rows}, command), options.out)
    print(f"written: {written}")
    return int(not all(row.parameters["right"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
