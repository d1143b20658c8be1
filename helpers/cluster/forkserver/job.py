"""Run a script on forked ranks from its beginning to its end."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from helpers.cluster.forkserver import handle, registry

END_SECONDS = 5.0


def run(
    path: Path,
    n: int,
    timeout: float,
    modules: Sequence[str] = (),
    threads: int | None = None,
) -> tuple[int | None, str]:
    """Run a Python script on ``n`` forked ranks, in the script's folder.

    Parameters
    ----------
    path : Path
        The script. Its folder is named as no other job's, and is removed if this process is killed.
    n : int
        The number of ranks.
    timeout : float
        In seconds; ranks that have not ended then are killed.
    modules : sequence of str, optional
        What the process that forks shall have imported.
    threads : int, optional
        What numerical libraries may use on each rank; by default as the environment says.

    Returns
    -------
    (int or None, str)
        The exit code of the rank that failed first, 0 if none did, None at the limit; and what the
        ranks wrote.

    Raises
    ------
    CannotFork
        If ranks cannot be forked here.
    StartError
        If the process that forks has ended or does not answer.
    """
    server = registry.acquire(modules)
    name, folder = path.parent.name, str(path.parent)
    try:
        server.ask("adopt", folder=folder)
        server.answer(server.require(*registry.RANKS, *modules))
        options = {"path": str(path)}
        server.answer(server.fork(name, "script", n, options, path.parent, threads, folder))
        ended = server.wait(name, timeout)
        first = server.first(name)
        code = os.waitstatus_to_exitcode(first[1]) if first else 0
    finally:
        if server.alive:
            server.ask("kill", name=name)
            server.wait(name, END_SECONDS)
            server.ask("forget", folder=folder)
        server.forget(name)
        registry.release(server)
    output = handle.output_file(path.parent, "script").read_text(errors="replace")
    return code if ended else None, output
