"""Which MPI there is: its mpiexec, its name, and what it must be told."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from helpers.machine.programs import ask, tidy

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
