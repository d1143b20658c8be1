"""A torch.distributed backend over MPI as pip installs it, under PyTorch as pip installs it.

For any script; nothing else of this project is needed::

    import torch.distributed as dist
    import helpers.torch_mpi                               # registers the backend "mpi4py"

    dist.init_process_group("mpi4py", init_method="mpi://")    # rank and size come from MPI
    ...                                                    # DDP, FSDP, DTensor, all_reduce, ...

Start it with ``mpiexec -n 4 python script.py``. No address, no port, no environment variable, no
build of PyTorch or MPI.

What it does
    Collectives and messages on tensors in the CPU's memory, of every dtype, shape and stride;
    ``async_op``, futures, sub-groups, coalescing, sparse ``all_reduce``, time limits whose errors
    name the ranks that are missing. Ranks on one host share a window of memory, ranks on several
    go through MPI: ``pg_options=Options("window")`` or ``Options("network")`` insists on one.
    ``python -m bench.conformance`` runs PyTorch's own tests on it, beside gloo;
    ``python -m bench torch_mpi`` measures it beside gloo and mpi4py.

What may surprise
    - ``init_method="mpi://"`` cannot be left out: torch's default, ``env://``, asks for four
      environment variables (the error names ``RANK``).
    - ``torchrun`` starts processes that MPI does not know of: it is refused, by name. Use mpiexec.
    - ``"cpu:mpi4py,cuda:nccl"`` is possible; tensors on a GPU are never this backend's.
    - A future's callbacks may call collectives and wait for them. These come before whatever the
      group's caller called since, so that all ranks agree on the order; a callback must not wait
      for the thread that made the call.
    - A rank that ends before its time ends the others' waiting, which raises and names it, where
      the ranks share a host. Between hosts they wait for their time limit:
      ``python -m mpi4py script.py`` ends the whole job with the first error.
    - MPI starts with the first process group, not with the import: worker processes of a
      ``DataLoader`` may be forked or spawned. ``from mpi4py import MPI`` at the top of a script
      starts it earlier, in spawned workers too, where it fails.

What it cannot do
    Tensors on a GPU; elastic restarts; ``split_group``; sums of eight-bit floats; a group whose
    ranks belong to several MPI jobs.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch.distributed as dist

from helpers.torch_mpi.registration import is_ours, register
from helpers.torch_mpi.transport import BACKEND, DepartedError, MismatchError, Options

if TYPE_CHECKING:
    from helpers.torch_mpi.group import ProcessGroupMPI4Py

__all__ = [
    "BACKEND",
    "DepartedError",
    "MismatchError",
    "Options",
    "ProcessGroupMPI4Py",
    "monitored_barrier",
]


def monitored_barrier(
    group: dist.ProcessGroup | None = None,
    timeout: timedelta | None = None,
    wait_all_ranks: bool = False,
) -> None:
    """Wait for every rank, and say who is missing.

    What ``torch.distributed.monitored_barrier`` does, which torch reserves for gloo. RuntimeError
    if not every rank has come in time: rank 0's names the first that has not, or with
    ``wait_all_ranks`` all of them.
    """
    group = group or dist.group.WORLD
    if not is_ours(group):
        raise ValueError(
            f"monitored_barrier expects a process group of the backend {BACKEND!r}; got {group!r}"
        )
    group.monitored_barrier(timeout, wait_all_ranks)  # type: ignore[union-attr, call-arg]


def __getattr__(name: str) -> Any:
    if name == "ProcessGroupMPI4Py":  # importing it starts MPI
        from helpers.torch_mpi.group import ProcessGroupMPI4Py

        return ProcessGroupMPI4Py
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


register()
