"""The solved notebooks with what they show, executed once for the site and for single pages.

``build/executed`` keeps each until the notebook or anything that it runs has changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from helpers.paths import ROOT
from tools import run

FOLDER = ROOT / "build" / "executed"
RUNS = ("helpers", "claims", "data", "tools/states.py")  # what a notebook runs and reads
SECONDS = 20.0  # for the states of a widget
MARK = "executed_from"  # metadata: the hash of all that the outputs come from


def executed(
    names: Iterable[str],
    folder: Path = FOLDER,
    say: Callable[[str], None] = print,
) -> tuple[dict[str, NotebookNode], list[str]]:
    """Return the executed notebooks by name, and a sentence for each thing wrong with them.

    Executed notebooks without a fault are kept in `folder`; `say` is told, in a line, how long each
    took.
    """
    folder.mkdir(parents=True, exist_ok=True)
    notebooks, problems = {}, []
    for name in names:
        source, kept = run.location(name, "solved"), folder / f"{name}.ipynb"
        mark = _mark(source)
        notebook = nbformat.read(kept, 4) if kept.exists() else None
        if notebook is None or notebook.metadata.get(MARK) != mark:
            done = run.execute(source, "solved", states=SECONDS)
            say(f"{name:32} executed in {done.seconds:.1f} s")
            notebook = done.notebook
            problems += [f"{name}: {problem}" for problem in done.problems]
            if not done.problems:
                notebook.metadata[MARK] = mark
                nbformat.write(notebook, kept)
        notebooks[name] = notebook
    return notebooks, problems


def _mark(notebook: Path) -> str:
    return hashlib.sha256(notebook.read_bytes() + _code().encode()).hexdigest()


@cache
def _code() -> str:
    """Return one hash for everything that a notebook may run or read."""
    digest = hashlib.sha256()
    for top in RUNS:
        for path in [ROOT / top, *sorted((ROOT / top).rglob("*"))]:
            if path.is_file() and "__pycache__" not in path.parts:
                digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
