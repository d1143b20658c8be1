"""The process in which a module's kernels run on the CPU, and the memory shared with it."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import select
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from helpers.cuda.errors import KernelError

GRACE = 5.0  # seconds past a kernel's own time limit before the worker is taken for lost


class Memory:
    """Memory that this process and a worker both map: an unnamed file, grown as needed."""

    def __init__(self) -> None:
        if hasattr(os, "memfd_create"):  # not bound by the size of /dev/shm, and never on a disk
            self.file = os.memfd_create("cuda-on-cpu")
            self.path = f"/proc/{os.getpid()}/fd/{self.file}"
            self._name = None
        else:
            self.file, self.path = tempfile.mkstemp(prefix="cuda-on-cpu-")
            self._name = self.path
        self._map: mmap.mmap | None = None
        self._finalize = weakref.finalize(self, _release, self.file, self._name)

    def bytes(self, size: int) -> np.ndarray:
        """Return the first bytes of the memory, which grows as needed."""
        if self._map is None or len(self._map) < size:
            os.ftruncate(self.file, size)
            self._map = mmap.mmap(self.file, size)
        return np.frombuffer(self._map, np.uint8, size)

    def close(self) -> None:
        """Give the memory back."""
        self._map = None
        self._finalize()


def _release(file: int, name: str | None) -> None:
    os.close(file)
    if name:
        Path(name).unlink(missing_ok=True)


class Worker:
    """One compiled module's process: started on first use, and again after it was lost."""

    def __init__(self, program: Path, *, silent: bool = False):
        self.program, self.silent = program, silent
        self.memory = Memory()
        self._process: subprocess.Popen[bytes] | None = None
        self._answers = -1
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the worker)
        self._stop: Callable[[], Any] = lambda: None

    @property
    def pid(self) -> int | None:
        """The process's number, None while there is none."""
        return self._process.pid if self._process and self._process.poll() is None else None

    def start(self) -> bool:
        """Start the process if it does not run; return whether it is a new one."""
        if self.pid:
            return False
        self.stop()
        self._answers, theirs = os.pipe()
        self._process = subprocess.Popen(
            [str(self.program), str(theirs)],
            stdin=subprocess.PIPE,
            stdout=self._output,
            pass_fds=(theirs,),
            start_new_session=True,  # Jupyter's interrupt is for the kernel, not for the worker
        )
        os.close(theirs)
        self._requests = cast(IO[bytes], self._process.stdin)
        self._stop = weakref.finalize(self, _end, self._process, self._requests, self._answers)
        return True

    def tell(self, request: str) -> None:
        """Send what has no answer to a process that runs; one that does not is told nothing."""
        if self.pid:
            with contextlib.suppress(BrokenPipeError):
                self._requests.write(request.encode())

    def ask(self, request: str, limit: float) -> dict:
        """Send one launch and wait for its answer; a worker's own end is in ``error``."""
        try:
            self._requests.write(request.encode())
            self._requests.flush()
            text = self._read(limit + GRACE)
        except BrokenPipeError:
            text = b""
        except BaseException:  # an interrupt from the keyboard: the kernel must not run on
            self.stop()
            raise
        self._show()
        if not text:
            status = self._process.poll() if self._process else None
            self.stop()
            return {"error": "lost", "status": status}
        answer = json.loads(text)
        if "error" in answer:
            self.stop()
        return answer

    def _read(self, limit: float) -> bytes:
        deadline, parts = time.monotonic() + limit, list[bytes]()
        while not parts or not parts[-1].endswith(b"\n"):
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._answers], [], [], max(left, 0))
            if not ready:
                return b""
            part = os.read(self._answers, 1 << 16)
            if not part:
                return b""
            parts.append(part)
        return b"".join(parts)

    def _show(self) -> None:
        """Print what the kernel's printf wrote since the last launch."""
        written = os.fstat(self._output.fileno()).st_size
        if written:
            text = os.pread(self._output.fileno(), written, 0).decode(errors="replace")
            os.ftruncate(self._output.fileno(), 0)
            os.lseek(self._output.fileno(), 0, os.SEEK_SET)
            if not self.silent:
                sys.stdout.write(text)

    def stop(self) -> None:
        """End the process; the next launch starts another."""
        self._stop()
        self._process = None

    def close(self) -> None:
        """End the process and give its memory back."""
        self.stop()
        self.memory.close()
        self._output.close()


def _end(process: subprocess.Popen[bytes], requests: IO[bytes], answers: int) -> None:
    process.kill()
    with contextlib.suppress(BrokenPipeError):
        requests.close()
    try:
        process.wait(timeout=GRACE)
    except subprocess.TimeoutExpired:
        raise KernelError(f"worker {process.pid} does not end") from None
    finally:
        os.close(answers)
