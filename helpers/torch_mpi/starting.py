"""How MPI starts for the backend, under an mpiexec that knows nothing of it."""

from __future__ import annotations

import contextlib
import functools
import os
import sys

from helpers.machine import guard
from helpers.machine.shared_memory import ucx_transports, unlink_own


def start_mpi() -> None:
    """Start MPI, unless it has been; where all ranks are on this host, without a port.

    MPICH's network opens one on every address of the host as it starts. Who needs it, to start
    further ranks on other hosts, says ``UCX_TLS=all``.
    """
    closed = "mpi4py.MPI" not in sys.modules and "UCX_TLS" not in os.environ and _alone()
    if closed:
        os.environ["UCX_TLS"] = ucx_transports()
    try:
        from mpi4py import MPI  # noqa: F401
    finally:
        if closed:  # what this rank starts may be on several hosts
            del os.environ["UCX_TLS"]


def _alone() -> bool:
    """Tell whether MPICH's mpiexec has started all ranks on this host."""
    here = os.environ.get("MPI_LOCALNRANKS")
    return here is not None and here == os.environ.get("PMI_SIZE")


def leave_no_name() -> None:
    """Remove the names of what MPICH and its mpiexec have put into shared memory and ``/tmp``.

    To be called when all ranks are past ``MPI_Init``: then they need the names no more, and nothing
    is left however they end.
    """
    unlink_own()
    _remove_topology()


@functools.cache  # a second time it would be another job's that is just starting
def _remove_topology() -> None:
    if os.environ.get("MPI_LOCALRANKID") == "0":
        with contextlib.suppress(OSError, IndexError):
            guard.unlink_topology(os.getpid())
