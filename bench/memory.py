"""Peak memory of one student: each notebook with all that it starts, and JupyterLab alone.

Memory and processor time come from tools/memory.py. Cells that showed nothing for long are named
too (tools/silence.py).
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from helpers.paths import ROOT
from helpers.records import Row
from tools.memory import EVERY, watched
from tools.notebooks import sources
from tools.run import execute, location
from tools.silence import LIMIT, silent_cells

SUITE = "memory"
PATIENCE = 120  # seconds until JupyterLab must have answered


def notebook(path: Path) -> Row:
    """Execute a notebook as its reader finds it; return its peak."""
    done = execute(path, "reader")
    if done.problems:
        raise RuntimeError(f"notebook {path.stem} failed: {done.problems[0]}")
    silent = [list(cell) for cell in silent_cells(done.notebook, LIMIT)]
    case = {
        "processes": done.use.processes,
        "processor s": round(done.use.busy, 1),
        "seconds": round(done.seconds, 1),
        "silent": silent,  # number, first line, seconds
    }
    return Row(f"notebook {path.stem[:2]}", round(done.use.peak / 1e6, 1), "MB", parameters=case)


def server() -> Row:
    """Start JupyterLab as a reader does, let it answer, and return its peak, without a kernel."""
    with tempfile.TemporaryDirectory() as home, watched() as (use, variables):
        places = {"HOME": home, "WORK": f"{home}/work", "JUPYTER_RUNTIME_DIR": f"{home}/runtime"}
        command = [sys.executable, "-m", "tools.work", "lab", "--no-browser"]
        with open(f"{home}/log", "w+", encoding="utf-8") as log:
            process = subprocess.Popen(
                [*command, "--ServerApp.port=0"],
                cwd=ROOT,
                env=os.environ | places | variables,
                stdout=log,
                stderr=log,
            )
            try:
                _answered(process, Path(home, "runtime"), Path(log.name))
            finally:
                process.terminate()
                process.wait()
    case = {"processes": use.processes}
    return Row("JupyterLab, no notebook open", round(use.peak / 1e6, 1), "MB", parameters=case)


def _answered(process: subprocess.Popen, runtime: Path, log: Path) -> None:
    """Wait until JupyterLab has shown its page."""
    deadline = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(EVERY)
        for page in runtime.glob("jpserver-*-open.html"):
            with contextlib.suppress(OSError, IndexError):
                address = page.read_text().split('href="')[1].split('"')[0]
                with urllib.request.urlopen(address.replace("/tree", "/lab"), timeout=30):
                    time.sleep(2)  # it goes on to load its extensions
                    return
    raise RuntimeError(f"no JupyterLab after {PATIENCE} s:\n{log.read_text()}")


def rows() -> list[Row]:
    """The server, and each of the reader's notebooks that runs to its end; else, why."""
    found = [_said(server())]
    for source in sources(ROOT):
        try:
            found.append(_said(notebook(location(source.stem, "reader"))))
        except RuntimeError as error:  # the hour of the others is not lost
            print(error, flush=True)
    return found


def _said(row: Row) -> Row:
    print(f"{row.name}: {row.value} {row.unit}, {row.parameters}", flush=True)
    return row
