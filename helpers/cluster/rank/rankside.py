"""What runs on a rank: the reader's code, and a thread that tells what the rank waits for."""

from __future__ import annotations

import ast
import asyncio
import itertools
import linecache
import multiprocessing.process
import os
import pickle
import re
import signal
import socket
import sys
import tempfile
import threading
import time
import types
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from mpi4py import MPI

from helpers.cluster.rank import stacks, state
from helpers.cluster.rank.capture import Capture
from helpers.cluster.rank.meanwhile import Meanwhile, RankInput
from helpers.cluster.rank.names import let_see
from helpers.cluster.rank.shell import CellExit, Ours, describe, ends_in_semicolon, make_ready
from helpers.cluster.rank.state import RankState
from helpers.machine.shared_memory import sweep_ended, unlink_own
from helpers.tracing import communicator as traced
from helpers.tracing.activity import Recorder

FINALIZED = (
    "MPI.Finalize() was called in an earlier cell, and after it no rank can send or receive. "
    "cluster.restart() starts new ranks; leave MPI.Finalize() out, they end with the cluster"
)
POLL_SECONDS = 0.1  # often enough for a reader, rare enough to cost nothing
SWEEP_TICKS = 10  # of these


class RankSide:
    """One rank's namespace, its recorder and its watcher; lives as long as the rank."""

    def __init__(self, state_dir: str) -> None:
        self.rank = MPI.COMM_WORLD.Get_rank()
        self.private = MPI.COMM_WORLD.Dup()  # our own messages never meet the reader's
        # mpi4py makes a context for pickled collectives at their first use, holding the interpreter
        # lock: a rank that waits there could not tell what it waits for. So make it now.
        MPI.COMM_WORLD.allreduce(0)
        unlink_own()  # all are past MPI_Init
        self.recorder = Recorder()
        traced.install(self.recorder)
        comm = MPI.COMM_WORLD  # the watched one, after install()
        self.namespace = {
            "MPI": MPI,
            "comm": comm,
            "rank": comm.Get_rank(),
            "size": comm.Get_size(),
        }
        self.state_dir = Path(state_dir)
        self.busy_since: float | None = None
        self._code_file = ""  # where the function that was called stands, unless in a cell
        self._meanwhile = Meanwhile(self.state_dir, self.rank)
        self._input = RankInput(self.state_dir, self.rank, self._meanwhile)
        self._ancestors = _ancestors()
        self._published: RankState | None = None
        self._interrupted = state.asked_to_stop(self.state_dir)
        watcher = threading.Thread(target=self._watch, name="watch", daemon=True)
        watcher.start()
        stacks.offer(self.state_dir, self.rank, watcher)
        folder = self.state_dir.parent  # a rank is ended before it could remove one of its own
        if folder.parent == Path(tempfile.gettempdir()).resolve():
            multiprocessing.process.current_process()._config["tempdir"] = str(folder)  # type: ignore[attr-defined]

    def hello(self) -> dict:
        """Tell this rank's ``rank``, ``size``, ``pid``, ``host`` and ``library``."""
        return {
            "rank": self.rank,
            "size": MPI.COMM_WORLD.Get_size(),
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "library": _short(MPI.Get_library_version()),
        }

    def clock(self) -> dict:
        """Measure this rank's clock against rank 0's; every rank must do so."""
        from helpers.tracing.clock import measure_offset

        return {"status": "ok", "value": measure_offset(self.private)}

    # -- running the reader's code -----------------------------------------------------------

    def execute(self, source: str, trace: bool) -> dict:
        """Run a cell in the rank's namespace, as IPython does; return the fields of a Reply."""
        shell = self._shell

        def work() -> None:
            # An error travels with the reply; IPython is not to put it into words, which an
            # interrupt could meet. Some it would only show: of a __repr__, say.
            shown: list[BaseException] = []

            def remember(error: tuple | None = None, *rest: object, **how: object) -> None:
                shown.extend(filter(None, [(error or sys.exc_info())[1]]))

            shell.showtraceback, shell._showtraceback = remember, lambda *error: None
            try:
                result = shell.run_cell(source, store_history=False)
            finally:
                del shell.showtraceback, shell._showtraceback
            for error in (result.error_before_exec, result.error_in_exec, *shown):
                if isinstance(error, CellExit) or (
                    isinstance(error, SystemExit) and not error.code
                ):
                    print("exit() ended this cell here; the ranks go on.")
                    return
                if isinstance(error, asyncio.CancelledError) and self._interrupted:
                    raise KeyboardInterrupt  # which cancels what a cell awaits
                if error is not None:
                    raise Ours(error)

        reply = self._guarded(work, trace)
        if ends_in_semicolon(shell, source):
            reply["parts"] = [part for part in reply["parts"] if part[0] != "result"]
        return reply

    def define(self, cells: list[str]) -> dict:
        """Run again what these cells import and define, and nothing else of them."""
        self._shell.ast_transformers.append(_Definitions())
        try:
            for cell in cells:
                self.execute(cell, False)
        finally:
            self._shell.ast_transformers.pop()
        return {"status": "ok"}

    @cached_property
    def _shell(self) -> Any:
        return make_ready()

    def call(self, blob: bytes, cells: dict) -> dict:
        """Call a pickled ``(function, args, kwargs)``; the names that it uses are the rank's.

        ``cells`` has the lines of the notebook's cells that define it, as ``linecache`` keeps them.
        """
        linecache.cache.update(cells)
        self._shell.compile._filename_map.update(dict.fromkeys(cells, 0))  # else named by its path

        def work() -> bytes:
            import cloudpickle

            function, args, kwargs = pickle.loads(blob)
            self._code_file = getattr(getattr(function, "__code__", None), "co_filename", "")
            let_see(function, names := self._shell.user_ns)
            for given in (*args, *kwargs.values()):
                let_see(given, names, modules=False)
            return cloudpickle.dumps(function(*args, **kwargs))

        return self._guarded(work, False)

    def _guarded(self, work: Callable[[], bytes | None], trace: bool) -> dict:
        """Run ``work``; return its value or error, its output, and the events if traced."""
        reply: dict = {"status": "ok", "value": None}
        if trace:
            self.recorder.start()
        self.busy_since = time.time()
        begin = time.perf_counter()
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            self._meanwhile.begin(capture := Capture(self._shell))
            with capture as reply["parts"], self._input.forwarded():
                try:
                    if MPI.Is_finalized():
                        raise Ours(RuntimeError(FINALIZED))
                    reply["value"] = work()
                finally:
                    reply["seconds"] = time.perf_counter() - begin
        except BaseException as error:
            try:
                reply.update(describe(error))
            except KeyboardInterrupt as interrupt:
                reply.update(describe(interrupt))
        finally:
            signal.signal(signal.SIGINT, before)
            self.busy_since = None
            self._meanwhile.end()
        if trace:
            reply["events"], reply["dropped"] = self.recorder.stop(), self.recorder.dropped
        return reply

    # -- the watcher --------------------------------------------------------------------------

    def _watch(self) -> None:
        main = threading.main_thread().ident
        assert main is not None
        for tick in itertools.count():
            time.sleep(POLL_SECONDS)
            if tick % SWEEP_TICKS == 0:
                sweep_ended()  # of what the reader's code started
            if _ancestors() != self._ancestors:  # mpiexec is gone: nobody would ever end this rank
                os._exit(1)
            asked = state.asked_to_stop(self.state_dir)
            if asked != self._interrupted:
                self._interrupted = asked
                if self.busy_since is not None:
                    signal.pthread_kill(main, signal.SIGINT)
            try:
                self._publish(main)
                self._meanwhile.tell()
            except FileNotFoundError:
                self._published = None  # the cluster stops, or makes its folder again
            except Exception as error:  # the watcher must outlive a state that it cannot write
                print(f"rank {self.rank}: state not written: {error!r}", file=sys.__stderr__)

    def _publish(self, main: int) -> None:
        """Write what this rank is doing to its file, if that changed since the last look."""
        now = self._state()
        if self._same(now):
            now.confirm(self.state_dir)
            return
        line, text = _cell_line(sys._current_frames().get(main), self._code_file)
        self._published = replace(now, line=line, text=text)
        self._published.write(self.state_dir)

    def _state(self) -> RankState:
        """Return what the main thread is doing, but for the line of the cell."""
        current = self.recorder.current
        if current is None or self.busy_since is None:
            return RankState(self.rank, self.busy_since)
        call, peer, tag, begin_ns, members = current
        since = time.time() - (time.perf_counter_ns() - begin_ns) / 1e9
        ranks = tuple(member for member in members if isinstance(member, int))
        return RankState(self.rank, self.busy_since, call, peer, tag, begin_ns, since, ranks)

    def _same(self, now: RankState) -> bool:
        """Tell whether the published state is this one: the same call (or none) still under way.

        While the rank computes, its line changes without any call: publish again then.
        """
        last = self._published
        if last is None or (now.busy_since is not None and now.call is None):
            return False
        told = (now.busy_since, now.call, now.begin_ns)
        return told == (last.busy_since, last.call, last.begin_ns)


class _Definitions(ast.NodeTransformer):
    """Keeps the imports, functions and classes of a cell, on their lines."""

    def visit_Module(self, node: ast.Module) -> ast.Module:
        kept = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        node.body = [part for part in node.body if isinstance(part, kept)]
        return node


def _cell_line(frame: types.FrameType | None, code_file: str) -> tuple[int | None, str]:
    """Return number and text of the innermost line under way in a cell or in ``code_file``.

    A line of a file begins with the file's name.
    """
    while frame is not None:
        name = frame.f_code.co_filename
        cell = "ipykernel_" in name
        if cell or name == code_file:
            text = linecache.getline(name, frame.f_lineno).strip()
            return frame.f_lineno, text if cell or name[:1] == "<" else f"{Path(name).name}: {text}"
        frame = frame.f_back
    return None, ""


def _short(version: str) -> str:
    """Cut MPI's own words down to name and number.

    >>> _short("MPICH Version:      5.0.2\\nMPICH Release date: ...")
    'MPICH 5.0.2'
    """
    return " ".join(re.split(r"[\n,\0]", version)[0].replace("Version:", "").split())


def _ancestors() -> tuple[int, int]:
    """Return the ids of the parent (a shell, see launch.RANK_SCRIPT) and of its parent."""
    import psutil

    try:
        return os.getppid(), psutil.Process(os.getppid()).ppid()
    except psutil.Error:
        return os.getppid(), 0
