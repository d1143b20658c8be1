"""Make an nbgrader course folder from the notebooks: ``make course COURSE=~/course``.

The folder gets ``nbgrader_config.py`` and ``source/NN_topic/NN_topic.ipynb`` (the solved notebooks,
from which nbgrader releases), each with the glossary beside it. What is there already is left as it
is. With ``--written yes`` (``WRITTEN=yes``) each notebook ends with a question to grade by hand,
with ``--variant 7`` (``VARIANT=7``) the exercises have other names and numbers.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import nbformat
from nbformat.v4 import new_markdown_cell

from helpers.paths import ROOT
from tools.notebooks import SourceError, sources
from tools.run import location
from tools.variants import vary

CONFIG = '''\
"""nbgrader's settings for this course (made by `make course`; edit it as you like)."""

import os
import sys

sys.path.insert(0, {root!r})
# nbgrader calls the `alembic` that stands beside it, also where the environment is not activated.
os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])

from nbgrader.converters import GenerateAssignment
from nbgrader.preprocessors import ClearSolutions

from tools import replies
from tools.release import OpenExercises

replies.install()  # or a cell with a widget may wait out the whole time limit below
c = get_config()  # noqa: F821 - nbgrader defines it
c.CourseDirectory.course_id = {name!r}
# Stubs that do not raise, so that a student's "Run All" reaches the end.
c.GenerateAssignment.preprocessors = [
    OpenExercises if each is ClearSolutions else each
    for each in GenerateAssignment.preprocessors.default_args[0]
]
c.Execute.timeout = 600  # seconds for one cell: the longest check gives itself 300
# Where assignments are handed out and in; every student must be able to write there.
# c.Exchange.root = "/srv/nbgrader/exchange"
'''

POINTS = 4  # of the written question: the rows of its table
QUESTION = """\
## In your own words

*A person reads this; {points} points.* Take a prediction that your machine did not confirm, yours \
or the notebook's. If all were confirmed, take one that nearly failed. Write five to ten sentences \
into the next cell. You may add cells with code anywhere in the notebook; say which they are.

| points | for |
|---|---|
| 1 | what was predicted and what came out on your machine, both as numbers with their unit |
| 1 | a cause of the difference, and what a run must show if this is the cause |
| 1 | a run in which only that cause changes: which cell, what you changed, what came out |
| 1 | what this run shows, and what it leaves open; "my cause was wrong" earns the point, too |
"""


def make(
    folder: Path,
    only: tuple[str, ...] = (),
    root: Path = ROOT,
    *,
    written: bool = False,
    variant: int = 0,
) -> list[Path]:
    """Write what is absent in ``folder``; return the paths written.

    With ``written`` each notebook gets the question that a person grades; ``variant`` decides
    which names and numbers the exercises have. Raises SourceError for an ``only`` that no notebook
    answers to, and for a folder of another variant.
    """
    made_for = folder / "variant.txt"
    there = made_for.read_text("utf-8").strip() if made_for.exists() else "0"
    if (folder / "source").exists() and there != str(variant):
        raise SourceError(
            f"{folder} holds variant {there} of the course, and make course replaces nothing: "
            f"expected VARIANT={there} or another folder, got VARIANT={variant}"
        )
    glossary = root / "notebooks" / "glossary.md"
    wanted = {folder / "nbgrader_config.py": CONFIG.format(root=str(root), name=folder.name)}
    for source in sources(root, only):
        text = location(source.stem, "solved", root).read_text(encoding="utf-8")
        if variant:
            wanted[made_for] = f"{variant}\n"
            notebook = nbformat.reads(text, 4)
            vary(notebook, source.stem, variant)
            text = nbformat.writes(notebook)
        if written:
            text = with_question(text)
        assignment = folder / "source" / source.stem
        wanted[assignment / f"{source.stem}.ipynb"] = among_assignments(text)
        wanted[assignment / glossary.name] = among_assignments(glossary.read_text("utf-8"))
    made = []
    for path, text in wanted.items():
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            made.append(path)
    return made


def with_question(text: str) -> str:
    """Return a solved notebook's file with the question at its end, and a cell for the answer.

    nbgrader hands the answer's cell out empty, gives no points where it stays so, and leaves every
    other answer to a person.
    """
    notebook = nbformat.reads(text, 4)
    question = {"grade": False, "solution": False, "locked": True}
    answer = {"grade": True, "solution": True, "locked": False, "points": POINTS}
    notebook.cells += [
        _marked("written-question", QUESTION.format(points=POINTS), question),
        _marked("written-answer", "An answer of the reader's own.", answer),
    ]
    return nbformat.writes(notebook)


def _marked(name: str, text: str, marks: dict) -> nbformat.NotebookNode:
    marks = {"grade_id": name, "schema_version": 3, "task": False, **marks}
    return new_markdown_cell(text, id=name, metadata={"nbgrader": marks})


def among_assignments(text: str) -> str:
    """Return the text with links to other notebooks as nbgrader lays these out."""
    return re.sub(r"\]\(([\dA]\d_\w+)\.ipynb", r"](../\1/\1.ipynb", text)


def main(arguments: list[str] | None = None) -> int:
    """Command line: write the course folder and say what to type next."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("only", nargs="*", metavar="NN", help="numbers or names (default: all)")
    parser.add_argument("--written", metavar="yes", help="a question that a person grades")
    parser.add_argument("--variant", default="0", help="a whole number: other names and numbers")
    options = parser.parse_args(arguments)
    if not re.fullmatch(r"[0-9]{1,18}", options.variant):
        expected = "expected a whole number, such as 48213 (0: as published)"
        print(f"VARIANT={options.variant}: {expected}", file=sys.stderr)
        return 1
    if options.written not in (None, "yes"):
        print(f"WRITTEN={options.written}: expected yes, or nothing", file=sys.stderr)
        return 1
    folder, only = options.folder.expanduser().resolve(), tuple(options.only)
    try:
        written = make(folder, only, written=options.written == "yes", variant=int(options.variant))
    except SourceError as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        said = f"expected a folder that can be written ({error.strerror})"
        print(f"COURSE={options.folder}: {said}", file=sys.stderr)
        return 1
    for path in written:
        print(path)
    nbgrader = Path(sys.executable).with_name("nbgrader")
    print(f"{len(written)} files written. Next, in {options.folder}:")
    print(f"  {nbgrader} generate_assignment 00_start_here")
    print(f"  {nbgrader} release_assignment 00_start_here")
    return 0


if __name__ == "__main__":
    sys.exit(main())
