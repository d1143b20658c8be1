"""The program of one rank: an ipyparallel engine whose MPI is watched.

mpiexec starts ``python -m helpers.cluster.rank.engine`` once per rank; a process forked for a rank
calls :meth:`RankEngine.begin`.

The rank's descriptors 1 and 2 are pipes, for what C code and child processes write. A thread reads
them while a cell runs; before Python itself prints, and at the end of the cell, what stands in the
pipes is taken first. What a process writes in the moment in which it dies stays unread.
"""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import fcntl
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ipykernel.iostream import OutStream
from ipyparallel.engine.app import IPEngine
from traitlets import Bool, Integer, Unicode, default
from traitlets.config import Config

from helpers.machine.mpi import THREAD_VARIABLES
from helpers.waiting import comes_true

ROOM = 1 << 20  # bytes of a pipe, so that C code that holds the interpreter seldom has to wait
LINE_BUFFERED = 1  # _IOLBF of the C libraries of Linux and macOS
_LIBC = ctypes.CDLL(None)
_C_STDOUT = ctypes.c_void_p.in_dll(_LIBC, "__stdoutp" if sys.platform == "darwin" else "stdout")
_BUFFER = ctypes.create_string_buffer(1 << 13)  # of C's stdout


class RankStream(OutStream):
    """A rank's ``sys.stdout`` or ``sys.stderr``, which takes what others write to its descriptor.

    Outside cells, where :attr:`taker` is None, all goes to the rank's log: what Python prints (on a
    thread that a cell left running), too.
    """

    taker: Callable[[str], Any] | None = None

    def __init__(self, session: Any, pub_thread: Any, name: str) -> None:
        super().__init__(session, pub_thread, name, watchfd="force")  # under pytest, too

    def _setup_stream_redirects(self, name: str) -> None:
        self._reading = threading.Lock()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._arrived = select.poll()  # asked first: it takes a third of a read in vain
        super()._setup_stream_redirects(name)
        self._arrived.register(self._fid, select.POLLIN)
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with contextlib.suppress(OSError):  # beyond what this user's pipes may have together
                fcntl.fcntl(self._fid, fcntl.F_SETPIPE_SZ, ROOM)
        getattr(sys, f"__{name}__").reconfigure(line_buffering=True)
        if name == "stdout":
            # Each line is sent on, as at a terminal; into a pipe C would send whole blocks.
            _LIBC.setvbuf(_C_STDOUT, _BUFFER, LINE_BUFFERED, ctypes.c_size_t(len(_BUFFER)))

    def _watch_pipe_fd(self) -> None:
        os.set_blocking(self._fid, False)
        while self._should_watch:
            select.select([self._fid], [], [])
            self.drain()

    def write(self, text: str) -> int:
        """Send text to the cell that runs, or write it to the log."""
        if self.taker is not None or not isinstance(text, str):
            super().write(text)
        else:
            os.write(self._original_stdstream_copy, text.encode(errors="backslashreplace"))
        return len(text)

    def drain(self) -> None:
        """Hand on all that stands in the pipe."""
        with self._reading, contextlib.suppress(BlockingIOError):
            if not self._arrived.poll(0):
                return
            while given := os.read(self._fid, 1 << 16):
                if self.taker is None:
                    os.write(self._original_stdstream_copy, given)
                else:
                    self.taker(self._decoder.decode(given))

    def catch_up(self) -> None:
        """Hand on all that was written by now, what C's and Python's own buffers hold included."""
        if self.name == "stdout":
            if sys.__stdout__ is not None:
                sys.__stdout__.flush()
            _LIBC.fflush(_C_STDOUT)
        self.drain()

    def fileno(self) -> int:
        """Return 1 or 2: a child process that is given this stream is shown as well."""
        return self._original_stdstream_fd


WRITING_SECONDS = 10.0
CONTROLLER_SECONDS = 60.0
LOOK_SECONDS = 0.002


class RankEngine(IPEngine):
    """An engine that knows its rank, shares its cores fairly and tells what it waits for."""

    state_dir = Unicode(config=True, help="where each rank writes what it is waiting for")
    threads = Integer(1, config=True, help="threads that numerical libraries may use on a rank")
    forked = Bool(False, help="whether the process that forked this one sees it end")

    @default("out_stream_factory")
    def _rank_stream(self) -> type[RankStream]:
        return RankStream

    @classmethod
    def begin(cls, ident: str, state_dir: str, threads: int, url_file: str) -> None:
        """Run a forked rank until it is killed; `url_file` may still have to be written."""
        comes_true(Path(url_file).exists, CONTROLLER_SECONDS, LOOK_SECONDS)
        config = Config()
        config.ProfileDir.location = str(Path(url_file).parents[1])
        config.RankEngine = Config(
            url_file=url_file,
            state_dir=state_dir,
            threads=threads,
            work_dir=os.getcwd(),  # by default where this module was imported
            enable_nanny=False,
            log_level=logging.ERROR,
        )
        program = cls.instance(ident=ident, forked=True, config=config)
        program.initialize([])
        program.log.setLevel(logging.ERROR)  # not of its handlers alone: records cost time
        program.start()

    def parse_command_line(self, argv: list[str] | None = None) -> None:
        """Read the command line; a forked rank has none, and need not build the parser for it."""
        if not self.forked:
            super().parse_command_line(argv)

    def initialize(self, argv: list[str] | None = None) -> None:
        """Read the configuration, then start MPI before any numerical library is imported."""
        super().initialize(argv)
        for name in THREAD_VARIABLES:
            os.environ[name] = str(self.threads)
        from helpers.cluster.rank.rankside import RankSide

        self.side = RankSide(self.state_dir)
        self.user_ns = self.side.namespace
        self.init_mpi = ""  # the namespace has MPI, comm, rank and size already

    def init_signal(self) -> None:
        """Let SIGTERM end this process at once, as it ends any other.

        ipyparallel's own handler stops the engine's loop, after which MPI is finalized, which waits
        for all ranks. Slurm and mpiexec send SIGTERM to all of them, and to the proxy between them:
        whoever comes later would wait for ever for those that are gone (Slurm: until KillWait,
        30 s). A rank within C code, or a process that it forked, would not even hear of it.
        """
        super().init_signal()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def load_connection_file(self) -> None:
        """Read the controller's file; it starts together with the ranks and may still write it."""
        deadline = time.monotonic() + WRITING_SECONDS
        while True:
            try:
                super().load_connection_file()
                return
            except ValueError:  # half a JSON file
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def start_heartbeat(self, *args: object) -> None:
        """Tell the controller that this rank is connected."""
        if self.forked:
            told = {"uuid": self.ident}
            self.session.send(self.registrar, "rank_connected", content=told)
        else:
            super().start_heartbeat(*args)


if __name__ == "__main__":
    sys.exit(RankEngine.launch_instance())
