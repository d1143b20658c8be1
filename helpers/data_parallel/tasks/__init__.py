"""What notebooks, claims and bench ask their ranks to train.

- ``lenet``: LeNet on the digits, by any scheme; ``links``: the same, compressed;
  ``stragglers``: with workers that are late
- ``perceptron``: a smaller network, whose replicas go their own way and are followed
- ``curve``: a source's curve and its four layers; what threads do to processes
- ``text``: a small transformer
- ``interruptible``: a run that is cut off, and goes on from a checkpoint
- ``sampling``: each worker's part of the data, alike or sorted by class
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


def ranks() -> Intracomm:
    """Return all ranks, each with one thread: those that share cores must not have more."""
    import torch
    from mpi4py import MPI

    torch.set_num_threads(1)
    return MPI.COMM_WORLD


def init_distributed() -> Intracomm:
    """Return all ranks, with ``torch.distributed`` begun on their communicator."""
    import torch.distributed as dist

    import helpers.torch_mpi  # noqa: F401 (registers the backend "mpi4py")

    comm = ranks()
    if not dist.is_initialized():
        dist.init_process_group("mpi4py", init_method="mpi://")
    return comm
