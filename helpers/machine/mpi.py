"""Which MPI there is, its mpiexec and what that must be told; ranks of a command under it.

Whatever happens, none of those is left behind. They are for scripts, measurements and tests;
a ``Cluster`` keeps ranks that answer.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.machine import guard
from helpers.machine.compilers import ask, tidy
from helpers.machine.shared_memory import ucx_transports

# Open MPI refuses to run as root or with more ranks than cores unless told otherwise: a classroom's
# containers do the former, a course on two cores the latter. MPICH ignores these.
OPEN_MPI_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}

# Where all ranks are on one machine none of them needs a port. (Its launcher opens one on every
# address, refuses to start with the loopback alone, and has no setting that closes it.)
OPEN_MPI_CLOSED = {"OMPI_MCA_btl": "^tcp"}

# What numerical libraries read when they are loaded.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


class NoMpiexecError(RuntimeError):
    """There is no mpiexec."""


def find_mpiexec(python: str | None = None) -> str:
    """Return the path of mpiexec: the one beside the ranks' interpreter, else the first on PATH.

    pip and conda install one beside the interpreter; a cluster has its own on PATH.
    """
    python = python or sys.executable
    beside = Path(python).with_name("mpiexec")
    if beside.exists():
        return str(beside)
    found = shutil.which("mpiexec")
    if found is None:
        raise NoMpiexecError(
            f"no mpiexec beside {python} and none on PATH. "
            "Install an MPI, for example with 'pip install mpich mpi4py'."
        )
    return found


def mpi_library() -> str:
    """Return MPI's name and version as `mpiexec` tells them; an empty string without `mpiexec`."""
    try:
        said = ask([find_mpiexec(), "--version"])
    except NoMpiexecError:
        return ""
    if match := re.search(r"HYDRA.*?Version:\s*(\S+)", said, re.DOTALL):
        return f"MPICH {match[1]}"
    if match := re.search(r"(?:Open MPI\)|OpenRTE\)|\(PRRTE\))\s*(\S+)", said):
        return f"Open MPI {match[1]}"
    if match := re.search(r"Intel\(R\) MPI.*?Version\s+(\S+)", said):
        return f"Intel MPI {match[1]}"
    return tidy(said.splitlines()[0]) if said.strip() else "unknown"


_OUTPUT, _ERRORS = ".output", ".errors"


@dataclass(frozen=True)
class Finished:
    """How ranks ended: mpiexec's exit code (None at the time limit) and what they wrote."""

    code: int | None
    output: str
    errors: str = ""


def run_ranks(
    n: int,
    command: Sequence[str | Path],
    *,
    timeout: float,
    folder: str | Path | None = None,  # for what they print; None: a temporary one
    **how: Any,
) -> Finished:
    """Run a command on ``n`` ranks and wait ``timeout`` s for its end; for ``how`` see start_ranks.

    >>> run_ranks(2, [sys.executable, "-c", "print('here')"], timeout=60).output.split()
    ['here', 'here']
    """
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ranks-"))
        code = None
        said = [Path(folder, name) for name in (_OUTPUT, _ERRORS)]
        with start_ranks(n, command, folder, **how) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(timeout)
            # before mpiexec, asked to end, says so in words of its own
            texts = [path.read_text(errors="replace") if path.exists() else "" for path in said]
        return Finished(code, *texts)


@contextlib.contextmanager
def start_ranks(
    n: int,
    command: Sequence[str | Path],
    folder: str | Path,  # for what they print; the guard removes it if this process is killed
    *,
    cwd: str | Path | None = None,  # where they start; None: in ``folder``
    threads: int | None = 1,  # of OpenMP and Numba in each; None leaves the environment as it is
    env: Mapping[str, str] | None = None,  # further variables
    mpiexec: str | None = None,  # None: find_mpiexec's
    apart: bool = False,  # keep standard error apart from standard output
) -> Iterator[subprocess.Popen]:
    """Start a command on ``n`` ranks; when the block is left, those that still run are killed.

    A guard ends them too when this process is gone, even if it was killed.
    """
    mpiexec = mpiexec or find_mpiexec()
    closed = {"UCX_TLS": ucx_transports(), **OPEN_MPI_CLOSED}
    environment = {**OPEN_MPI_ENVIRONMENT, **closed, **os.environ}
    environment.pop("PYTHONUNBUFFERED", None)  # ranks would write into each other's lines
    environment.pop("PYTHONWARNINGS", None)  # it would make errors of the libraries' warnings
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
