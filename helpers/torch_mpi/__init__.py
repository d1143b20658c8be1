"""A torch.distributed backend over MPI as pip installs it, under PyTorch as pip installs it.

>>> import helpers.torch_mpi                           # registers the backend "mpi4py"
>>> torch.distributed.init_process_group("mpi4py")     # rank and size come from MPI

Importing this module changes two functions of ``torch.distributed``, each for this backend only:

- ``init_process_group`` takes rank, size and store from MPI when neither ``store`` nor
  ``init_method`` is given (torch's default, ``env://``, wants four environment variables);
- ``monitored_barrier``, which torch reserves for gloo, calls :func:`monitored_barrier`.

Everything else goes through torch's public extension point, ``Backend.register_backend``.
"""

from __future__ import annotations

import atexit
import functools
from datetime import timedelta

import torch.distributed as dist
from torch.distributed import distributed_c10d as _c10d

from helpers.torch_mpi.group import Options, ProcessGroupMPI4Py
from helpers.torch_mpi.rendezvous import mpi_store
from helpers.torch_mpi.shared_memory import MismatchError

__all__ = ["BACKEND", "MismatchError", "Options", "ProcessGroupMPI4Py", "monitored_barrier"]

BACKEND = "mpi4py"


def monitored_barrier(group=None, timeout: timedelta | None = None, wait_all_ranks: bool = False):
    """A barrier in which rank 0 names the ranks that did not arrive (raises RuntimeError).

    ``timeout`` defaults to the group's. With ``wait_all_ranks`` the error names all the missing
    ranks, else the first. Raises ValueError for a group of another backend.
    """
    group = group or dist.group.WORLD
    if not isinstance(group, ProcessGroupMPI4Py):
        raise ValueError(f"expected a process group of the backend {BACKEND!r}; got {group!r}")
    group.monitored_barrier(timeout, wait_all_ranks)


def _create(options, pg_options) -> ProcessGroupMPI4Py:
    if pg_options is None and dist.is_initialized():  # a sub-group goes the way of its parent
        parent = dist.group.WORLD
        if isinstance(parent, ProcessGroupMPI4Py) and parent.transport.kind == "network":
            pg_options = Options("network")
    return ProcessGroupMPI4Py(
        options.store,
        options.group_rank,
        options.group_size,
        options.timeout,
        options.group_id,
        pg_options,
    )


def _names_us(backend) -> bool:
    return BACKEND in str(backend or "").lower()


def _with_mpi_store(original):
    @functools.wraps(original)
    def init_process_group(backend=None, init_method=None, timeout=None, *args, **kwargs):
        elsewhere = init_method is not None or args or kwargs.get("store") is not None
        if _names_us(backend) and not elsewhere and not dist.is_initialized():
            store, rank, size = mpi_store(timeout or _c10d.default_pg_timeout)
            given = kwargs.get("rank", -1), kwargs.get("world_size", -1)
            if given[0] not in (-1, rank) or given[1] not in (-1, size):
                raise ValueError(
                    f"rank={given[0]}, world_size={given[1]} contradict MPI, which says rank "
                    f"{rank} of {size}; leave them out"
                )
            kwargs |= {"store": store, "rank": rank, "world_size": size}
        return original(backend, init_method, timeout, *args, **kwargs)

    return init_process_group


def _with_our_barrier(original):
    @functools.wraps(original)
    def dispatching(group=dist.group.WORLD, timeout=None, wait_all_ranks=False):
        chosen = group or dist.group.WORLD
        if isinstance(chosen, ProcessGroupMPI4Py):
            return monitored_barrier(chosen, timeout, wait_all_ranks)
        return original(group, timeout, wait_all_ranks)

    return dispatching


def _end() -> None:
    """Stop threads that would otherwise call MPI after it has been finalised."""
    if dist.is_initialized() and isinstance(dist.group.WORLD, ProcessGroupMPI4Py):
        dist.destroy_process_group()


def _register() -> None:
    if BACKEND in dist.Backend.backend_list:
        return
    dist.Backend.register_backend(BACKEND, _create, extended_api=True, devices=["cpu"])
    for module in (dist, _c10d):
        module.init_process_group = _with_mpi_store(module.init_process_group)
        module.monitored_barrier = _with_our_barrier(module.monitored_barrier)
    atexit.register(_end)


_register()
