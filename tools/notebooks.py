"""Make the notebooks from their sources (``make notebooks``), or check that they are up to date.

``notebooks/source/NN_topic.py`` (jupytext py:percent, exercises solved; an appendix is
``A1_topic.py``) gives ``notebooks/NN_topic.ipynb`` (exercises open) and
``notebooks/solutions/NN_topic.ipynb`` (solved).
The same source always gives the same bytes. CONTRIBUTING.md describes the source's format.
"""

from __future__ import annotations

import argparse
import ast
import copy
import hashlib
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import jupytext
import nbformat
from IPython.core.inputtransformer2 import TransformerManager
from nbformat import NotebookNode
from nbgrader.nbgraderformat import MetadataValidator

from helpers.paths import ROOT
from tools import claimed
from tools.release import OpenExercises

KEYS = {"exercise", "check", "points", "claims", "tags", "jupyter"}
MAX_LINES = 24  # of code in one cell: more belongs in helpers
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "pygments_lexer": "ipython3",
    },
}


class SourceError(ValueError):
    """A notebook's source breaks a rule; the message names the file and the cell."""


def sources(root: Path = ROOT, only: tuple[str, ...] = ()) -> list[Path]:
    """Return the sources in order, or those whose number or name is in ``only``.

    Raises SourceError for a badly named file and for an ``only`` that no source answers to.
    """
    found = sorted((root / "notebooks" / "source").glob("*.py"))
    for path in found:
        if not re.fullmatch(r"(\d|A)\d_[a-z0-9_]+", path.stem):
            raise SourceError(
                f"{path.name}: a source is called NN_topic.py, such as 01_mpi.py or A1_mpi.py"
            )
    for want in only:
        if not any(want in (path.stem, path.stem[:2]) for path in found):
            names = ", ".join(path.stem for path in found)
            raise SourceError(f"there is no notebook {want!r}; there are {names}")
    return [path for path in found if not only or {path.stem, path.stem[:2]} & set(only)]


def is_appendix(name: str) -> bool:
    """Tell whether a notebook is an appendix, which only ``make test-all`` executes."""
    return name.startswith("A")


def asked_for(parser: argparse.ArgumentParser, only: Sequence[str]) -> list[str]:
    """Return the names of the notebooks of a command line; an unknown one ends the program."""
    try:
        return [path.stem for path in sources(only=tuple(only))]
    except SourceError as error:
        parser.exit(1, f"{error}\n")


def build(source: Path) -> tuple[NotebookNode, NotebookNode]:
    """Return the reader's notebook and the solved one; raises SourceError for a bad source."""
    try:
        solved = jupytext.read(source, fmt="py:percent")
    except nbformat.ValidationError as error:  # such as tags="one" in place of tags=["one"]
        raise SourceError(f"{source.name}: {error.message}, in a cell's header") from None
    solved.metadata = nbformat.from_dict(METADATA)
    solved.nbformat, solved.nbformat_minor = 4, 5
    for index, cell in enumerate(solved.cells):
        where = f"{source.name}, cell {index + 1} ({_first_line(cell.source)!r})"
        _restore_magic(cell)
        cell.source = cell.source.replace("  # fmt: skip", "")  # for ruff, not for readers
        cell.metadata = nbformat.from_dict(_metadata(cell, where))
        _check_cell(cell, where)
    _check_exercises(solved, source.name)
    named = [name for cell in solved.cells for name in cell.metadata.get("claims", [])]
    for fault in claimed.faults(source.stem, named):
        raise SourceError(f"{source.name}: {fault}")
    for cell, identity in zip(solved.cells, _identities(solved), strict=True):
        cell.id = identity
    reader = copy.deepcopy(solved)
    opener = OpenExercises()
    for index, cell in enumerate(reader.cells):
        where = f"{source.name}, cell {index + 1} ({_first_line(cell.source)!r})"
        try:
            opener.preprocess_cell(cell, {}, index)
        except RuntimeError as error:
            raise SourceError(f"{where}: {error}") from None
        _check_python(cell, f"{where}, with the exercise open")
    MetadataValidator().validate_nb(solved)
    nbformat.validate(reader)
    return reader, solved


def render(notebook: NotebookNode) -> bytes:
    """Return the notebook's file: UTF-8 JSON, keys sorted, one newline at the end."""
    return (nbformat.writes(notebook, version=4).rstrip("\n") + "\n").encode()


def outputs(root: Path = ROOT, only: tuple[str, ...] = ()) -> Iterator[tuple[Path, bytes]]:
    """Yield the path and the content of every notebook that the sources make."""
    for source in sources(root, only):
        for folder, notebook in zip(("", "solutions"), build(source), strict=True):
            yield root / "notebooks" / folder / f"{source.stem}.ipynb", render(notebook)


def stale(root: Path = ROOT, only: tuple[str, ...] = ()) -> list[str]:
    """Return a sentence for each notebook that is missing, differs, or has no source."""
    wanted = dict(outputs(root, only))
    report = []
    for path, content in wanted.items():
        name = path.relative_to(root)
        if not path.exists():
            report.append(f"{name} is missing")
        elif path.read_bytes() != content:
            report.append(f"{name} differs from what its source makes")
    if not only:
        folder = root / "notebooks"
        for path in sorted([*folder.glob("*.ipynb"), *folder.glob("solutions/*.ipynb")]):
            if path not in wanted:
                report.append(f"{path.relative_to(root)} has no source")
    return report


def _first_line(text: str) -> str:
    return next((line.strip()[:60] for line in text.splitlines() if line.strip()), "")


def _restore_magic(cell: NotebookNode) -> None:
    """A cell of another language stands commented under ``# %% language="cuda"``: its magic."""
    language, arguments = (cell.metadata.pop(key, "") for key in ("language", "magic_args"))
    if language:
        cell.source = f"%%{language} {arguments}".rstrip() + f"\n{cell.source}"


def _metadata(cell: NotebookNode, where: str) -> dict:
    """Turn the percent header's compact keys into a notebook's and nbgrader's metadata."""
    given = {key: value for key, value in cell.metadata.items() if key != "lines_to_next_cell"}
    unknown = sorted(set(given) - KEYS)
    if unknown:
        raise SourceError(f"{where}: unknown {unknown} in the header; known: {sorted(KEYS)}")
    if "exercise" in given and "check" in given:
        raise SourceError(f"{where}: a cell is an exercise or a check, not both")
    kept = {key: given[key] for key in ("tags", "jupyter") if key in given}
    if "claims" in given:
        kept["claims"] = str(given["claims"]).split()
    if "points" in given and "check" not in given:
        raise SourceError(f"{where}: points belong to the check, not to this cell")
    for role in ("exercise", "check"):
        if role in given:
            kept["nbgrader"] = _nbgrader(role, given[role], given.get("points", 1), where)
            if cell.cell_type != "code":
                raise SourceError(f"{where}: {role}={given[role]!r} must be a code cell")
    return kept


def _nbgrader(role: str, name: object, points: object, where: str) -> dict:
    if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9-]{0,50}", name):
        raise SourceError(f"{where}: {role}={name!r}, expected a name such as {role}='left-right'")
    if isinstance(points, bool) or not isinstance(points, int) or points < 1:
        raise SourceError(f"{where}: points={points!r}, expected a whole number from 1 up")
    is_check = role == "check"
    metadata = {
        "grade": is_check,
        "grade_id": f"{name}-check" if is_check else name,
        "locked": is_check,
        "schema_version": 3,
        "solution": not is_check,
        "task": False,
    }
    return {**metadata, "points": points} if is_check else metadata


def _check_cell(cell: NotebookNode, where: str) -> None:
    if not cell.source.strip():
        raise SourceError(f"{where}: the cell is empty")
    marked = "BEGIN SOLUTION" in cell.source or "END SOLUTION" in cell.source
    is_exercise = cell.metadata.get("nbgrader", {}).get("solution", False)
    if is_exercise and not marked:
        raise SourceError(f"{where}: an exercise needs BEGIN SOLUTION and END SOLUTION lines")
    if marked and not is_exercise:
        raise SourceError(f'{where}: a solution outside an exercise; write # %% exercise="name"')
    if marked and cell.source.count("BEGIN SOLUTION") != cell.source.count("END SOLUTION"):
        raise SourceError(f"{where}: BEGIN SOLUTION and END SOLUTION do not pair up")
    if cell.cell_type == "code":
        lines = [line for line in cell.source.splitlines() if line.strip()]
        if len(lines) > MAX_LINES:
            raise SourceError(f"{where}: {len(lines)} lines of code, expected {MAX_LINES} at most")
        _check_python(cell, where)


def _check_python(cell: NotebookNode, where: str) -> None:
    if cell.cell_type != "code":
        return
    text = cell.source
    if text.startswith("%%ranks"):  # the magic's body is Python too
        text = text.partition("\n")[2]
    try:
        code = TransformerManager().transform_cell(text)
        compile(code, where, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError as error:
        raise SourceError(f"{where}: line {error.lineno} is not Python: {error.msg}") from None


def _check_exercises(notebook: NotebookNode, name: str) -> None:
    """Each exercise is followed by its one check, and no name comes twice."""
    graded = [cell.metadata.nbgrader for cell in notebook.cells if "nbgrader" in cell.metadata]
    for grade_id, count in Counter(entry.grade_id for entry in graded).items():
        if count > 1:
            raise SourceError(f"{name}: {grade_id!r} names {count} cells, expected one")
    exercises = [entry.grade_id for entry in graded if entry.solution]
    checks = [entry.grade_id.removesuffix("-check") for entry in graded if entry.grade]
    for missing in sorted(set(exercises) ^ set(checks)):
        has, lacks = ("an exercise", "check") if missing in exercises else ("a check", "exercise")
        raise SourceError(f"{name}: {missing!r} has {has} but no {lacks}={missing!r} cell")
    order = [entry.grade_id for entry in graded]
    for exercise in exercises:
        if order.index(exercise) > order.index(f"{exercise}-check"):
            raise SourceError(f"{name}: the check of {exercise!r} stands before the exercise")


def _identities(notebook: NotebookNode) -> Iterator[str]:
    """Cell ids: an exercise's name, or a digest of the cell's text (counted where texts repeat)."""
    seen: Counter[str] = Counter()
    for cell in notebook.cells:
        if "nbgrader" in cell.metadata:
            yield cell.metadata.nbgrader.grade_id
            continue
        digest = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:10]
        seen[digest] += 1
        yield f"cell-{digest}" + (f"-{seen[digest]}" if seen[digest] > 1 else "")


def main(arguments: list[str] | None = None) -> int:
    """Command line: write the notebooks, or with ``--check`` only compare them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("only", nargs="*", metavar="NN", help="numbers or names (default: all)")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if one differs")
    options = parser.parse_args(arguments)
    only = tuple(options.only)
    try:
        if options.check:
            report = stale(ROOT, only)
            print("\n".join(report) or "every notebook is what its source makes")
            if report:
                print("run `make notebooks` and commit the result")
            return 1 if report else 0
        for path, content in outputs(ROOT, only):
            changed = not path.exists() or path.read_bytes() != content
            if changed:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            print(f"{path.relative_to(ROOT)}  {'written' if changed else 'unchanged'}")
    except SourceError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
