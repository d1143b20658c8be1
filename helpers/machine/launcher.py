"""Run a command on ranks of its own under mpiexec; whatever happens, none of them is left behind.

For scripts, measurements and tests. (:class:`helpers.cluster.Cluster` keeps ranks that answer.)
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from helpers.machine import guard
from helpers.machine.mpi import (
    OPEN_MPI_CLOSED,
    OPEN_MPI_ENVIRONMENT,
    THREAD_VARIABLES,
    find_mpiexec,
)
from helpers.machine.shared_memory import ucx_transports

_OUTPUT, _ERRORS = ".output", ".errors"


@dataclass(frozen=True)
class Finished:
    """How ranks ended.

    Parameters
    ----------
    code
        mpiexec's exit code; None at the time limit.
    output
        What the ranks printed.
    errors
        What they wrote to standard error, where that was kept apart.
    """

    code: int | None
    output: str
    errors: str = ""


def run_ranks(
    n: int,
    command: Sequence[str | Path],
    *,
    timeout: float,
    folder: str | Path | None = None,
    cwd: str | Path | None = None,
    threads: int | None = 1,
    env: Mapping[str, str] | None = None,
    mpiexec: str | None = None,
    apart: bool = False,
) -> Finished:
    """Run a command on ``n`` ranks and wait for its end.

    >>> run_ranks(2, [sys.executable, "-c", "print('here')"], timeout=60).output.split()
    ['here', 'here']

    Parameters
    ----------
    n
        Number of ranks.
    command
        Program and arguments of each rank.
    timeout
        Seconds after which the ranks are ended.
    folder, cwd, threads, env, mpiexec, apart
        As for :func:`start_ranks`; without ``folder``, a temporary one.

    Returns
    -------
    Finished
        Exit code and output, also of ranks that failed or were ended.

    Raises
    ------
    NoMpiexecError
        There is no mpiexec.
    """
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ranks-"))
        code = None
        said = [Path(folder, name) for name in (_OUTPUT, _ERRORS)]
        with start_ranks(
            n,
            command,
            folder,
            cwd=cwd,
            threads=threads,
            env=env,
            mpiexec=mpiexec,
            apart=apart,
        ) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(timeout)
            # before mpiexec, asked to end, says so in words of its own
            texts = [path.read_text(errors="replace") if path.exists() else "" for path in said]
        return Finished(code, *texts)


@contextlib.contextmanager
def start_ranks(
    n: int,
    command: Sequence[str | Path],
    folder: str | Path,
    *,
    cwd: str | Path | None = None,
    threads: int | None = 1,
    env: Mapping[str, str] | None = None,
    mpiexec: str | None = None,
    apart: bool = False,
) -> Iterator[subprocess.Popen]:
    """Start a command on ``n`` ranks; when the block is left, those that still run are killed.

    A guard ends them too when this process is gone, even if it was killed.

    Parameters
    ----------
    n
        Number of ranks.
    command
        Program and arguments of each rank.
    folder
        A folder for what the ranks print, which the guard removes if this process is killed.
    cwd
        Where the ranks start; default: ``folder``.
    threads
        Threads of OpenMP and of Numba in each rank; None leaves the environment as it is.
    env
        Further variables for the ranks.
    mpiexec
        The launcher; default: :func:`helpers.machine.mpi.find_mpiexec`'s.
    apart
        Keep standard error apart from standard output.

    Yields
    ------
    subprocess.Popen
        The process that ends with mpiexec and with its exit code.

    Raises
    ------
    NoMpiexecError
        There is no mpiexec.
    """
    mpiexec = mpiexec or find_mpiexec()
    closed = {"UCX_TLS": ucx_transports(), **OPEN_MPI_CLOSED}
    environment = {**OPEN_MPI_ENVIRONMENT, **closed, **os.environ}
    environment.pop("PYTHONUNBUFFERED", None)  # ranks would write into each other's lines
    if threads is not None:
        environment |= dict.fromkeys(THREAD_VARIABLES, str(threads))
    with contextlib.ExitStack() as stack:
        lock = stack.enter_context(Path(folder, ".lock").open("w"))
        fcntl.lockf(lock, fcntl.LOCK_EX)  # held until the ranks have ended
        output = stack.enter_context(Path(folder, _OUTPUT).open("w"))
        errors = stack.enter_context(Path(folder, _ERRORS).open("w")) if apart else output
        process = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", guard.__file__, lock.name, str(folder)),
                *(mpiexec, "-n", str(n), *map(str, command)),
            ],
            cwd=cwd or folder,
            env={**environment, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()  # the guard ends mpiexec and every process below it
                process.wait()
