"""Execute notebooks as the tests do (``python -m tools.run 01``): both sets, times and memory.

``--twice`` runs each section a second time before the next one, as a reader does who goes back.

nbmake executes each in a fresh kernel, in a folder of its own. The reader's set must reach the
end with nothing on stderr and every check "not attempted"; the solved set runs as if nbgrader
graded it, and every check must say "correct".
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import nbformat
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode
from nbmake.nb_run import NotebookRun

from helpers.paths import ROOT
from tools import replies, silence
from tools.memory import Use, watched
from tools.notebooks import asked_for

CELL_LIMIT = 180  # seconds: no cell of the course is meant to take half of it
SLOW = 2.0  # seconds: slower cells are listed with their time
HEAD = f"{'notebook':32} {'set':6} {'time':>9} {'memory':>9}"
EXPECTED = {"reader": "not attempted", "solved": "correct"}


@dataclass(frozen=True)
class Execution:
    """An executed notebook: which set, what it took, and what is wrong with it."""

    name: str
    kind: str  # "reader" or "solved"
    notebook: NotebookNode
    seconds: float
    problems: tuple[str, ...]
    use: Use = field(default_factory=Use)


def location(name: str, kind: str, root: Path = ROOT) -> Path:
    """Return the path of notebook ``name`` in the set ``kind`` ("reader" or "solved")."""
    folder = root / "notebooks" / ("solutions" if kind == "solved" else "")
    return folder / f"{name}.ipynb"


def sections_twice(notebook: NotebookNode) -> NotebookNode:
    """Return the notebook with the code of each section there twice, one after the other.

    A section begins with a cell of text that has a heading of the second level; the cell that stops
    the ranks belongs to none, since no section runs after it.
    """
    sections: list[list[NotebookNode]] = [[]]
    for cell in notebook.cells:
        head = cell.cell_type == "markdown" and re.search(r"^## ", cell.source, re.MULTILINE)
        if head or cell.source == "cluster.stop()":
            sections.append([])
        sections[-1].append(cell)
    twice = copy.deepcopy(notebook)
    twice.cells = []
    for section in sections:
        again = [copy.deepcopy(cell) for cell in section if cell.cell_type == "code"]
        for cell in again:
            cell.id += "-again"
        twice.cells += [*section, *again]
    return twice


def execute(
    path: Path,
    kind: str,
    cell_limit: int = CELL_LIMIT,
    *,
    twice: bool = False,
    states: float = 0.0,
) -> Execution:
    """Execute the notebook in a new folder; the file itself is left as it is.

    With ``states`` each ``interact`` also shows its states, for a page, as many as it can compute
    in so many seconds (``tools/states.py``).
    """
    replies.install()
    silence.install()
    with (
        tempfile.TemporaryDirectory(prefix="notebook-") as folder,
        # A page's times must not show us: to ask for the ranks' memory takes a tenth of two cores.
        contextlib.nullcontext((Use(), {})) if states else watched() as (use, mark),
        _environment(mark, NBGRADER_EXECUTION="autograde" if kind == "solved" else None),
    ):
        file = Path(shutil.copy(path, folder))
        if twice:
            nbformat.write(sections_twice(nbformat.read(file, 4)), file)
        if states:
            nbformat.write(_recording(nbformat.read(file, 4), states), file)
        started = time.perf_counter()
        result = None
        # a dead kernel leaves neither outputs nor the cell's number
        with contextlib.suppress(DeadKernelError):
            result = NotebookRun(file, cell_limit).execute()
        seconds = time.perf_counter() - started
    if result is None:
        notebook = nbformat.read(path, 4)
        return Execution(path.stem, kind, notebook, seconds, ("the kernel died",), use)
    for cell in result.nb.cells:
        cell.metadata.pop("nbmake", None)
    ran = result.error.failing_cell_index + 1 if result.error else None
    found = problems(result.nb, kind, ran)
    if result.error and ("timed out" in result.error.summary or not found):
        found.append(f"cell {result.error.failing_cell_index + 1}: {result.error.summary}")
    return Execution(path.stem, kind, result.nb, seconds, tuple(found), use)


def _recording(notebook: NotebookNode, seconds: float) -> NotebookNode:
    """Return the notebook such that nbmake, after its first code, starts ``tools.states``."""
    start = (
        f"__import__('sys').path.append({str(ROOT)!r}); "
        f"__import__('tools.states', fromlist=['install']).install({seconds})"
    )
    first = next((cell for cell in notebook.cells if cell.cell_type == "code"), None)
    if first is not None:
        first.metadata["nbmake"] = {"post_cell_execute": [start]}
    return notebook


def slow_cells(notebook: NotebookNode, limit: float = SLOW) -> list[tuple[int, str, float]]:
    """Return (number, first line, seconds) of each cell that took longer than ``limit`` seconds."""
    found = []
    for index, cell in enumerate(notebook.cells):
        times = cell.metadata.get("execution", {})
        if "iopub.execute_input" not in times or "shell.execute_reply" not in times:
            continue
        begin, end = (
            datetime.fromisoformat(times[name])
            for name in ("iopub.execute_input", "shell.execute_reply")
        )
        if (seconds := (end - begin).total_seconds()) > limit:
            found.append((index + 1, cell.source.strip().partition("\n")[0], seconds))
    return found


def problems(notebook: NotebookNode, kind: str, ran: int | None = None) -> list[str]:
    """Return a sentence for each thing that a notebook of the set ``kind`` must not show.

    Only the first ``ran`` cells are read: those after an error printed nothing.
    """
    found = []
    for index, cell in enumerate(notebook.cells[:ran]):
        if cell.cell_type != "code":
            continue
        first = cell.source.strip().partition("\n")[0]
        where = f"cell {index + 1} ({first[:60]})"
        may_fail = "raises-exception" in cell.metadata.get("tags", [])
        printed = ""
        for output in cell.outputs:
            if output.output_type == "error" and not may_fail:
                found.append(f"{where} raised {output.ename}: {output.evalue}")
            elif output.output_type == "stream" and output.name == "stderr":
                found.append(f"{where} wrote to stderr: {output.text.strip()[:300]}")
            elif output.output_type == "stream":
                printed += output.text
        if cell.metadata.get("nbgrader", {}).get("grade") and EXPECTED[kind] not in printed:
            found.append(f"{where} did not say {EXPECTED[kind]!r} but {printed.strip()[:300]!r}")
    return found


def told(done: Execution) -> str:
    """Return a line for an execution, with its time and memory, and under it its slow cells."""
    megabytes = done.use.peak / 1e6
    lines = [f"{done.name:32} {done.kind:6} {done.seconds:7.1f} s {megabytes:6.0f} MB"]
    lines += [
        f"    cell {number:3} {seconds:7.1f} s  {first[:60]}"
        for number, first, seconds in slow_cells(done.notebook)
    ]
    return "\n".join(lines)


@contextlib.contextmanager
def _environment(more: dict[str, str], **changes: str | None) -> Iterator[None]:
    """Change this process's environment, which the kernel started meanwhile inherits."""
    before = dict(os.environ)
    for name, value in (more | changes).items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def main(arguments: list[str] | None = None) -> int:
    """Command line: execute the notebooks named (default: all) and print times and problems."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("only", nargs="*", metavar="NN", help="numbers or names (default: all)")
    parser.add_argument("--twice", action="store_true", help="run each section twice in a row")
    options = parser.parse_args(arguments)
    names = asked_for(parser, options.only)
    done = []
    for name in names:
        for kind in EXPECTED:
            done.append(execute(location(name, kind), kind, twice=options.twice))
            for problem in done[-1].problems:
                print(f"{name}, {kind}: {problem}")
    print("\n".join([HEAD, *map(told, done)]))
    return 1 if any(item.problems for item in done) else 0


if __name__ == "__main__":
    sys.exit(main())
