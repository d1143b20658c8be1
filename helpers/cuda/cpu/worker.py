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
from pathlib import Path

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
        """Return the first ``size`` bytes as an array (uint8)."""
        if self._map is None or len(self._map) < size:
            os.ftruncate(self.file, size)
            self._map = mmap.mmap(self.file, size)
        return np.frombuffer(self._map, np.uint8, size)

    def close(self) -> None:
        self._map = None
        self._finalize()


def _release(file: int, name: str | None) -> None:
    os.close(file)
    if name:
        Path(name).unlink(missing_ok=True)


class Worker:
    """One compiled module's process: started on first use, and again after it was lost."""

    def __init__(self, program: Path):
        self.program = program
        self.memory = Memory()
        self._process: subprocess.Popen | None = None
        self._answers = -1
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the worker)
        self._stop = lambda: None

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
        self._stop = weakref.finalize(self, _end, self._process, self._answers)
        return True

    def tell(self, request: str) -> None:
        """Send what has no answer to a process that runs; one that does not is told nothing."""
        if self._process and self.pid:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.write(request.encode())

    def ask(self, request: str, limit: float) -> dict:
        """Send one launch and return the answer; ``limit`` in seconds.

        A worker that dies or falls silent is stopped, and its end is in the answer ("error").
        """
        try:
            self._process.stdin.write(request.encode())
            self._process.stdin.flush()
            text = self._read(limit + GRACE)
        except BrokenPipeError:
            text = b""
        except BaseException:  # an interrupt from the keyboard: the kernel must not run on
            self.stop()
            raise
        self._show()
        if not text:
            status = self._process.poll()
            self.stop()
            return {"error": "lost", "status": status}
        answer = json.loads(text)
        if "error" in answer:
            self.stop()
        return answer

    def _read(self, limit: float) -> bytes:
        deadline, parts = time.monotonic() + limit, []
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
            sys.stdout.write(text)

    def stop(self) -> None:
        """End the process; the next launch starts another."""
        self._stop()
        self._process = None

    def close(self) -> None:
        self.stop()
        self.memory.close()
        self._output.close()


def _end(process: subprocess.Popen, answers: int) -> None:
    process.kill()
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    try:
        process.wait(timeout=GRACE)
    except subprocess.TimeoutExpired:
        raise KernelError(f"worker {process.pid} does not end") from None
    finally:
        os.close(answers)
