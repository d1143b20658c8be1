"""How the backend comes into torch: by its public doors, and without starting MPI.

``register_backend`` makes process groups, ``register_rendezvous_handler`` answers ``mpi://``. MPI
starts with the first group, under an mpiexec that knows nothing of the backend: so a script's
worker processes may import this package, as those that ``spawn`` begins do.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlparse

import torch.distributed as dist
from torch.distributed.constants import default_pg_timeout
from torch.distributed.rendezvous import register_rendezvous_handler

from helpers.machine.shared_memory import ucx_transports
from helpers.torch_mpi.transport import BACKEND, Options

if TYPE_CHECKING:
    from helpers.torch_mpi.group import ProcessGroupMPI4Py

SCHEME = "mpi"


def register() -> None:
    """Tell torch of the backend ``"mpi4py"`` and of ``mpi://``, once."""
    if BACKEND not in dist.Backend.backend_list:
        dist.Backend.register_backend(BACKEND, create, extended_api=True, devices=["cpu"])
        register_rendezvous_handler(SCHEME, rendezvous)


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


def rendezvous(
    url: str, timeout: timedelta = default_pg_timeout, **_: Any
) -> Iterator[tuple[dist.Store, int, int]]:
    """Answer ``init_process_group(..., init_method="mpi://")``: all comes from MPI.

    Yield where the ranks meet, this rank, and how many there are. ValueError if the caller's rank
    or world size are not MPI's; RuntimeError if MPI was not told of the other processes that were
    started with this one.
    """
    start_mpi()
    from helpers.torch_mpi.rendezvous import mpi_store, mpi_world

    rank, size = mpi_world()
    for name, value in parse_qsl(urlparse(url).query):
        found = {"rank": rank, "world_size": size}.get(name)
        if found is not None and int(value) != found:
            raise ValueError(
                f"mpi:// expects rank and world_size to be left out, or to be MPI's, rank {rank} "
                f"of {size}; got {name}={value}"
            )
    yield mpi_store(timeout), rank, size


def create(options: Any, pg_options: Options | None) -> ProcessGroupMPI4Py:
    """Make a process group; torch calls this, with its ``DistributedBackendOptions``.

    Without ``pg_options`` a sub-group goes the way of the default group.
    """
    start_mpi()
    from helpers.torch_mpi.group import ProcessGroupMPI4Py

    if pg_options is None and dist.is_initialized():
        parent = dist.group.WORLD
        if isinstance(parent, ProcessGroupMPI4Py) and parent.transport.kind == "network":
            pg_options = Options("network")
    atexit.unregister(_end)
    atexit.register(_end)  # after mpi4py has registered its own, so this comes first
    return ProcessGroupMPI4Py(
        options.store,
        options.group_rank,
        options.group_size,
        options.timeout,
        options.group_id,
        pg_options,
    )


def is_ours(group: object) -> bool:
    """Tell whether a process group is one of this backend."""
    module = sys.modules.get("helpers.torch_mpi.group")
    return module is not None and isinstance(group, module.ProcessGroupMPI4Py)


def _end() -> None:
    """Stop threads that would otherwise call MPI after it has been finalised; leave the groups."""
    if dist.is_initialized() and is_ours(dist.group.WORLD):
        dist.destroy_process_group()
