"""Run a script on forked ranks from its beginning to its end, in a folder of the job's own."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from helpers.cluster.errors import StartError
from helpers.cluster.start import folders
from helpers.cluster.start.forkserver import handle

END_SECONDS = 5.0


class Job:
    """A folder with a script ``script.py``, and the process that can fork ranks to run it."""

    def __init__(self, server: handle.ForkServer, folder: Path, modules: Sequence[str]) -> None:
        self.folder = folder
        self.script = folder / "script.py"
        self._server = server
        self._modules = modules

    def run(self, n: int, timeout: float, threads: int | None = None) -> tuple[int | None, str]:
        """Run the script on `n` ranks; return the first exit code that is not 0, and the output.

        The code is None if the time was up, and the ranks were killed.
        """
        server, name, place = self._server, self.folder.name, str(self.folder)
        try:
            server.answer(server.require(*handle.RANKS, *self._modules))
            options = {"path": str(self.script)}
            server.answer(server.fork(name, "script", n, options, self.folder, threads, place))
            ended = server.wait(name, timeout)
            if ended and not server.alive:
                raise StartError("the process that forks ranks has ended, and with it the ranks")
            first = server.first(name)
            code = os.waitstatus_to_exitcode(first[1]) if first else 0
        finally:
            if server.alive:
                server.ask("kill", name=name)
                server.wait(name, END_SECONDS)
            server.forget(name)
        output = handle.output_file(self.folder, "script").read_text(errors="replace")
        return code if ended else None, output


@contextlib.contextmanager
def place(modules: Sequence[str] = (), way: str = "fork") -> Iterator[Job]:
    """Make a folder for a job; it is removed at the end, and also if this process is killed."""
    server = handle.acquire(modules, way)
    folder = Path(tempfile.gettempdir(), f"{folders.PREFIX}{secrets.token_hex(6)}")
    try:
        server.ask("adopt", folder=str(folder))  # before it is there to be left behind
        with folders.own(folder):
            try:
                yield Job(server, folder, modules)
            finally:
                # in this order: if this process is killed in between the other one removes it
                shutil.rmtree(folder, ignore_errors=True)
                with contextlib.suppress(StartError):  # it has ended
                    server.ask("forget", folder=str(folder))
    finally:
        handle.release(server)
