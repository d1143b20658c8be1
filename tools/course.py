"""Make an nbgrader course folder from the notebooks: ``make course COURSE=~/course``.

The folder gets ``nbgrader_config.py`` and ``source/NN_topic/NN_topic.ipynb`` (the solved notebooks,
from which nbgrader releases), each with the glossary beside it. What is there already is left as it
is.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from helpers.paths import ROOT
from tools.notebooks import SourceError, sources
from tools.run import location

CONFIG = '''\
"""nbgrader's settings for this course (made by `make course`; edit it as you like)."""

import os
import sys

sys.path.insert(0, {root!r})
# nbgrader calls the `alembic` that stands beside it, also where the environment is not activated.
os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])

from nbgrader.converters import GenerateAssignment
from nbgrader.preprocessors import ClearSolutions

from tools.release import OpenExercises

c = get_config()  # noqa: F821 - nbgrader defines it
c.CourseDirectory.course_id = {name!r}
# Stubs that do not raise, so that a student's "Run All" reaches the end.
c.GenerateAssignment.preprocessors = [
    OpenExercises if each is ClearSolutions else each
    for each in GenerateAssignment.preprocessors.default_args[0]
]
c.Execute.timeout = 300  # seconds for one cell: cells that start ranks or train need more than 30
# Where assignments are handed out and in; every student must be able to write there.
# c.Exchange.root = "/srv/nbgrader/exchange"
'''


def make(folder: Path, only: tuple[str, ...] = (), root: Path = ROOT) -> list[Path]:
    """Write what is absent in ``folder``; return the paths written.

    Raises SourceError for an ``only`` that no notebook answers to.
    """
    glossary = root / "notebooks" / "glossary.md"
    wanted = {folder / "nbgrader_config.py": CONFIG.format(root=str(root), name=folder.name)}
    for source in sources(root, only):
        text = location(source.stem, "solved", root).read_text(encoding="utf-8")
        assignment = folder / "source" / source.stem
        wanted[assignment / f"{source.stem}.ipynb"] = among_assignments(text)
        wanted[assignment / glossary.name] = among_assignments(glossary.read_text("utf-8"))
    written = []
    for path, text in wanted.items():
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            written.append(path)
    return written


def among_assignments(text: str) -> str:
    """Return the text with links to other notebooks as nbgrader lays these out."""
    return re.sub(r"\]\((\d\d_\w+)\.ipynb", r"](../\1/\1.ipynb", text)


def main(arguments: list[str] | None = None) -> int:
    """Command line: write the course folder and say what to type next."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("only", nargs="*", metavar="NN", help="numbers or names (default: all)")
    options = parser.parse_args(arguments)
    try:
        written = make(options.folder.expanduser().resolve(), tuple(options.only))
    except SourceError as error:
        print(error, file=sys.stderr)
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
