"""What a reader has predicted and solved, kept in ``.progress/`` beside the notebook.

Only where JupyterLab says which notebook runs, and never while nbgrader grades. Nothing leaves the
machine, unless the reader has joined a board (:mod:`helpers.board`).
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PLACE = ".progress"
PAGE = "progress.md"
LARGEST = 1e30  # a number beyond is kept as it is written
_CHECK = re.compile(r"\bcheck\.(\w+)\(")


def notebook() -> Path | None:
    """Return the notebook that this kernel runs, as JupyterLab tells; None if nobody does."""
    path = Path(os.environ.get("JPY_SESSION_NAME", ""))
    graded = os.environ.get("NBGRADER_EXECUTION")
    return path if path.suffix == ".ipynb" and path.is_file() and not graded else None


def settle(name: str, said: object, came: object) -> tuple[Any, str]:
    """Keep a prediction once it has been answered; return what counts as said, and a remark.

    What was said before the reader saw the answer stays, whatever is typed afterwards.
    """
    path = notebook()
    if path is None:
        return said, ""
    kept = _read(path)
    before = kept["predictions"].get(name)
    if before is None:
        kept["predictions"][name] = {"said": plain(said), "came": plain(came)}
        _write(path, kept)
        return said, ""
    if plain(said) == before["said"]:
        return said, ""
    return before["said"], f" (you knew the answer when you typed {plain(said)}; it is not counted)"


def solved(title: str) -> None:
    """Keep that an exercise is solved."""
    path = notebook()
    if path is None:
        return
    kept = _read(path)
    if title not in kept["solved"]:
        kept["solved"].append(title)
        _write(path, kept)


def forget(path: Path) -> None:
    """Begin anew with a notebook, of which a fresh copy was made."""
    _file(path).unlink(missing_ok=True)
    if (path.parent / PAGE).exists():
        write_page(path.parent)


@dataclass(frozen=True)
class Lesson:
    """How far a reader is with one lesson: the checks in its cells, and which of them are right."""

    notebook: str
    heading: str
    checks: tuple[tuple[str, ...], ...]  # for each exercise, the names of its checks
    solved: frozenset[str]

    @property
    def marks(self) -> str:
        """One mark for each exercise."""
        return "".join("●" if self.solved.issuperset(names) else "○" for names in self.checks)


def lessons(folder: Path) -> list[Lesson]:
    """Return the lessons with exercises of all notebooks in a folder, in order."""
    found = []
    for path in sorted(folder.glob("*.ipynb")):
        try:
            cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        except (OSError, ValueError, KeyError):
            continue  # half written, or no notebook of the course's
        done = frozenset(_read(path)["solved"])
        heading, checks = path.stem, list[tuple[str, ...]]()
        for cell in [*cells, {"cell_type": "markdown", "source": "## "}]:
            text = "".join(cell["source"])
            if cell["cell_type"] == "markdown" and text.startswith("## "):
                if checks:
                    found.append(Lesson(path.stem, heading, tuple(checks), done))
                heading, checks = text.splitlines()[0][3:], []
            elif cell.get("metadata", {}).get("nbgrader", {}).get("grade"):
                names = dict.fromkeys(name.replace("_", " ") for name in _CHECK.findall(text))
                checks += [tuple(names)] if names else []
    return found


def table(folder: Path) -> str:
    """Return, as Markdown, each notebook's exercises and predictions, and where to go on."""
    rows = ["| notebook | exercises, lesson by lesson | predictions |", "|---|---|---|"]
    every = lessons(folder)
    begun, following = None, None
    for path in sorted(folder.glob("*.ipynb")):
        mine = [lesson for lesson in every if lesson.notebook == path.stem]
        said = sum(one["said"] is not None for one in _read(path)["predictions"].values())
        if mine or said:
            marks = " ".join(lesson.marks for lesson in mine)
            rows.append(f"| [{path.stem}]({path.name}) | {marks} | {said or ''} |")
    for lesson in every:
        open_ = "○" in lesson.marks
        begun = lesson if open_ and "●" in lesson.marks else begun
        following = following or (lesson if open_ else None)
    at = begun or following
    if at is None:
        return "\n".join(rows)
    anchor = at.heading.replace(" ", "-")
    link = f"[{at.heading}]({at.notebook}.ipynb#{anchor})"
    return "\n".join([*rows, "", f"**Go on with** {link}, in {at.notebook}."])


def write_page(folder: Path) -> None:
    """Write the table to a page of the folder, which stands in JupyterLab's list of files."""
    (folder / PAGE).write_text(f"# Where you are\n\n{table(folder)}\n", encoding="utf-8")


def show() -> None:
    """Show the table in the notebook."""
    from IPython.display import Markdown, display

    path = notebook()
    elsewhere = "In JupyterLab this cell shows what you have solved, and where to go on."
    display(Markdown(table(path.parent) if path else elsewhere))


def plain(value: object) -> float | str | None:
    """Return a number, a short text or None: what JSON holds, of what a reader typed."""
    if value is None or value is ...:
        return None
    try:
        number = float("nan") if isinstance(value, str) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    return number if abs(number) <= LARGEST else printable(str(value))


def printable(text: str) -> str:
    """Return a text on one line, of at most 120 characters that can be seen."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())[:120]


def _file(path: Path) -> Path:
    return path.parent / PLACE / f"{path.stem}.json"


def _read(path: Path) -> dict[str, Any]:
    try:
        kept = json.loads(_file(path).read_text(encoding="utf-8"))
        return {"predictions": dict(kept["predictions"]), "solved": list(kept["solved"])}
    except (OSError, ValueError, KeyError, TypeError):
        return {"predictions": {}, "solved": []}


def _write(path: Path, kept: dict[str, Any]) -> None:
    file = _file(path)
    try:
        file.parent.mkdir(exist_ok=True)
        part = file.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(kept, indent=1, ensure_ascii=False), encoding="utf-8")
        part.replace(file)
        write_page(path.parent)
    except OSError:
        return  # a folder that cannot be written: the notebook goes on without
