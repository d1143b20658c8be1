"""Time of one %%ranks cell, ours and Jupyter Distributed's.

The peer runs every cell on N kernels behind one, without MPI. It is asked at its best: its kernel
begins with N processes, while in JupyterLab it begins with one and starts anew when N is chosen.
It gets an environment of its own, made for this run, since its extension would change the course's
JupyterLab; where the package index does not answer its column stays empty.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from jupyter_client import KernelManager
from jupyter_client.kernelspec import KernelSpec

from helpers.paths import ROOT
from helpers.records import Row

SUITE = "cells"
N = 4
PEER = "jupyter-distributed==0.1.1"
STARTS = 3
CELLS = 40
LONG_CELLS = 3
LIMIT = 60.0  # seconds without a word from a kernel

EMPTY = "pass"
LINE = "import os; print(os.getpid())"  # no two ranks print the same: nothing can be folded
LINES = "import os\nfor _ in range({lines}): print(f'{{os.getpid():99d}}')"  # 100 B each


class Answer(NamedTuple):
    """What came of a cell: seconds until the kernel was idle again, and characters to be shown."""

    seconds: float
    shown: int


class Session:
    """A kernel whose cells run on ranks."""

    def __init__(
        self,
        command: list[str],
        opening: str = "",
        magic: str = "",
        settings: dict[str, str] | None = None,
    ) -> None:
        begin = time.perf_counter()
        self.magic = magic
        self.manager = KernelManager()
        argv = [*command, "-f", "{connection_file}"]
        self.manager._kernel_spec = KernelSpec(argv=argv, env=settings or {})
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.manager.start_kernel(cwd=str(ROOT), **silent)
        self.client = self.manager.blocking_client()
        try:
            self.client.start_channels()
            self.client.wait_for_ready(timeout=LIMIT)
            if opening:
                self._ask(opening)
            self.on_ranks(LINE)
        except BaseException:
            self.close()
            raise
        self.started = time.perf_counter() - begin

    def on_ranks(self, code: str) -> Answer:
        """Run a cell on all ranks; raise RuntimeError if it fails, or prints and nothing comes."""
        answer = self._ask(f"{self.magic}\n{code}" if self.magic else code)
        if "print" in code and not answer.shown:
            raise RuntimeError(f"{code!r} showed nothing")
        return answer

    def close(self) -> float:
        """Shut the kernel down; return the seconds until it has ended."""
        begin = time.perf_counter()
        self.client.stop_channels()
        self.manager.shutdown_kernel()
        return time.perf_counter() - begin

    def _ask(self, code: str) -> Answer:
        begin, shown, idle = time.perf_counter(), 0, False
        request = self.client.execute(code)
        while not idle:
            message = self.client.get_iopub_msg(timeout=LIMIT)
            if message["parent_header"].get("msg_id") != request:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "error":
                raise RuntimeError(f"{code!r}: {content['ename']}: {content['evalue']}")
            if kind in ("stream", "display_data", "update_display_data"):
                shown += len(str(content))
            idle = kind == "status" and content["execution_state"] == "idle"
        return Answer(time.perf_counter() - begin, shown)


def rows() -> list[Row]:
    """Ask both in turn, cell by cell; ours alone where the peer cannot be had."""
    with tempfile.TemporaryDirectory(prefix="bench-cells-") as folder:
        makers = [_ours]
        if python := _peer(Path(folder)):
            makers.append(lambda: _theirs(python))
        else:
            print(f"{PEER} cannot be had here: its column stays empty")
        return _measured(makers)


def _measured(makers: list[Callable[[], Session]]) -> list[Row]:
    starts: list[list[float]] = [[] for _ in makers]
    stops: list[list[float]] = [[] for _ in makers]
    for _ in range(STARTS):
        for k, make in enumerate(makers):
            session = make()
            starts[k].append(session.started)
            stops[k].append(session.close())
    found = [
        _row("new kernel to first result", "s", starts),
        _row("stop", "s", stops),
    ]
    with ExitStack() as stack:
        sessions = []
        for make in makers:
            sessions.append(make())
            stack.callback(sessions[-1].close)
        for name, code in (("empty cell", EMPTY), ("a cell that prints a line", LINE)):
            answers = _in_turn(sessions, code, CELLS)
            found.append(_row(name, "ms", [[1e3 * a.seconds for a in of] for of in answers]))
        for lines in (1_000, 2_000):
            answers = _in_turn(sessions, LINES.format(lines=lines), LONG_CELLS)
            case = {"printed_kB": lines / 10 * N}
            name = f"a cell that prints {lines / 10:g} kB on each rank"
            found.append(_row(name, "s", [[a.seconds for a in of] for of in answers], case))
            sent = [[a.shown / 1e6 for a in of] for of in answers]
            found.append(_row(f"{name}: sent to the browser", "MB", sent, case))
    return found


def _in_turn(sessions: list[Session], code: str, repeats: int) -> list[list[Answer]]:
    answers: list[list[Answer]] = [[] for _ in sessions]
    for _ in range(repeats):
        for session, of in zip(sessions, answers, strict=True):
            of.append(session.on_ranks(code))
    return answers


def _row(name: str, unit: str, taken: list[list[float]], case: dict | None = None) -> Row:
    """Return the medians: ours, and the peer's where there is one."""
    values = [statistics.median(of) for of in taken]
    theirs = values[1] if len(values) > 1 else None
    peer = PEER.replace("jupyter-distributed==", "Jupyter Distributed ")
    return Row(name, values[0], unit, peer, theirs, {"ranks": N, **(case or {})})


def _ours() -> Session:
    opening = f"%load_ext helpers.cluster\nfrom helpers.cluster import Cluster\nc = Cluster({N})"
    return Session([sys.executable, "-m", "ipykernel_launcher"], opening, "%%ranks")


def _theirs(python: str) -> Session:
    settings = {"JUPYTER_DISTRIBUTED_WORLD_SIZE": str(N), "PYTHONPATH": ""}
    return Session([python, "-m", "jupyter_distributed.kernel"], settings=settings)


def _peer(folder: Path) -> str:
    """Make the peer's environment, with the course's ipykernel; '' without a package index."""
    python = str(folder / "bin" / "python")
    uv = [sys.executable, "-m", "uv"]
    same = f"ipykernel=={version('ipykernel')}"
    for command in (
        [*uv, "venv", "--quiet", "--python", sys.executable, str(folder), "--allow-existing"],
        [*uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", python, PEER, same],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            print(done.stderr.strip())
            return ""
    return python
