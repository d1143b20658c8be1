"""What C code and child processes write to a rank's descriptors 1 and 2, in order with Python's.

Descriptors 1 and 2 are pipes. A thread reads them while a cell runs; before Python itself prints,
and at the end of the cell, what stands in the pipes is taken first. What a process writes in the
moment in which it dies stays unread.
"""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import fcntl
import os
import select
import sys
import threading
from collections.abc import Callable
from typing import Any

from ipykernel.iostream import OutStream

ROOM = 1 << 20  # bytes of a pipe, so that C code that holds the interpreter seldom has to wait
LINE_BUFFERED = 1  # _IOLBF of the C libraries of Linux and macOS
_LIBC = ctypes.CDLL(None)
_C_STDOUT = ctypes.c_void_p.in_dll(_LIBC, "__stdoutp" if sys.platform == "darwin" else "stdout")
_BUFFER = ctypes.create_string_buffer(1 << 13)  # of C's stdout


class RankStream(OutStream):
    """A rank's ``sys.stdout`` or ``sys.stderr``, which takes what others write to its descriptor.

    Outside cells, where :attr:`taker` is None, that goes to the rank's log.
    """

    taker: Callable[[str], Any] | None = None

    def __init__(self, session: Any, pub_thread: Any, name: str) -> None:
        super().__init__(session, pub_thread, name, watchfd="force")  # under pytest, too

    def _setup_stream_redirects(self, name: str) -> None:
        self._reading = threading.Lock()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        super()._setup_stream_redirects(name)
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

    def drain(self) -> None:
        """Hand on all that stands in the pipe."""
        with self._reading, contextlib.suppress(BlockingIOError):
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
