"""What a student takes at the peak: each notebook's kernel with all that it starts, and the server.

    python -m bench memory              all of the reader's notebooks, one after the other
    python -m bench.memory 02 06        these

Added up four times a second: the proportional set sizes (what processes share counts once) of all
that inherited a mark from the kernel's environment, whoever their parent has become. Beside it, the
processor's time that they have had, and the cells that showed nothing for long (tools/silence.py).
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from helpers import records
from helpers.paths import BENCH_RECORDS, ROOT
from helpers.records import Row
from tools.notebooks import sources
from tools.run import execute, location
from tools.silence import LIMIT, silent_cells

SUITE = "memory"
MARK = "COURSE_MEMORY_OF"  # in the environment of all that counts
EVERY = 0.25  # seconds from one look to the next
TICK = os.sysconf("SC_CLK_TCK")  # of the processor's time in /proc
PATIENCE = 120  # seconds until JupyterLab must have answered


@dataclass
class Use:
    """What was seen of the processes with a mark: the greatest memory, and each one's time."""

    peak: int = 0  # bytes
    processes: int = 0  # at the peak
    ticks: dict[str, int] = field(default_factory=dict)  # of each process, when last seen

    @property
    def busy(self) -> float:
        """Seconds of the processor, of all processes; what they had after the last look is lost."""
        return sum(self.ticks.values()) / TICK

    def look(self, mark: str) -> int:
        """Look at all processes with this mark; return the bytes that they have now."""
        total = count = 0
        wanted = f"{MARK}={mark}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, IndexError):
                if wanted not in (folder / "environ").read_bytes().split(b"\0"):
                    continue
                stat = (folder / "stat").read_text().rpartition(")")[2].split()
                self.ticks[f"{folder.name} since {stat[19]}"] = int(stat[11]) + int(stat[12])
                text = (folder / "smaps_rollup").read_text()
                total += int(text.split("\nPss:")[1].split()[0]) << 10
                count += 1
        if total > self.peak:
            self.peak, self.processes = total, count
        return total


@contextlib.contextmanager
def watched() -> Iterator[tuple[Use, dict[str, str]]]:
    """Look, until the end of the block, at what is started with these variables."""
    use, mark, over = Use(), uuid.uuid4().hex, threading.Event()

    def watch() -> None:
        while not over.wait(EVERY):
            use.look(mark)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield use, {MARK: mark}
    finally:
        over.set()
        thread.join()


def notebook(path: Path) -> Row:
    """Execute a notebook as its reader finds it; return its peak."""
    began = time.perf_counter()
    with watched() as (use, variables):
        os.environ |= variables  # the kernel inherits them, and this process never had them
        try:
            done = execute(path, "reader")
        finally:
            del os.environ[MARK]
    if done.problems:
        raise RuntimeError(f"notebook {path.stem} failed: {done.problems[0]}")
    seconds = time.perf_counter() - began
    silent = [list(cell) for cell in silent_cells(done.notebook, LIMIT)]
    case = {
        "processes": use.processes,
        "processor s": round(use.busy, 1),
        "seconds": round(seconds, 1),
        "silent": silent,  # number, first line, seconds to the first that is shown, longest
    }
    return Row(f"notebook {path.stem[:2]}", round(use.peak / 1e6, 1), "MB", parameters=case)


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


def rows(only: tuple[str, ...] = ()) -> list[Row]:
    """The server, and each notebook that runs to its end; of one that does not, why."""
    found = [_said(server())]
    for source in sources(ROOT, only):
        try:
            found.append(_said(notebook(location(source.stem, "reader"))))
        except RuntimeError as error:  # the hour of the others is not lost
            print(error, flush=True)
    return found


def _said(row: Row) -> Row:
    print(f"{row.name}: {row.value} {row.unit}, {row.parameters}", flush=True)
    return row


if __name__ == "__main__":
    asked = sys.argv[1:]
    command = shlex.join(["python", "-m", "bench.memory", *asked])
    made = records.record({SUITE: rows(tuple(asked))}, command)
    print(f"written: {records.write(made, BENCH_RECORDS).relative_to(ROOT)}")
