"""Real MPI ranks in a notebook: ``Cluster``, and the ``%%ranks`` magic (``%load_ext``).

- ``kernel``: what the notebook's side does with ranks that live: calls, cells, what a reader sees
- ``start``: ways to bring ranks to life and to end them: forked, by mpiexec, Slurm or ssh
- ``rank``: what runs on a rank, and the files by which it tells the notebook what it does
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

from helpers.cluster.errors import (
    ClusterError,
    RankDiedError,
    RankError,
    RanksInterrupted,
    RankTimeoutError,
    StartError,
)
from helpers.cluster.kernel.cluster import Cluster
from helpers.cluster.start.forked import Forked, Spawned, keep_warm
from helpers.cluster.start.guarded import Mpiexec
from helpers.cluster.start.network import Network
from helpers.cluster.start.slurm import Slurm
from helpers.cluster.start.ssh import Ssh
from helpers.machine.shared_memory import unlink_when_alone

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = [
    "Cluster",
    "ClusterError",
    "Forked",
    "Mpiexec",
    "Network",
    "RankDiedError",
    "RankError",
    "RankTimeoutError",
    "RanksInterrupted",
    "Slurm",
    "Spawned",
    "Ssh",
    "StartError",
]


def load_ipython_extension(shell: InteractiveShell) -> None:
    """Register ``%%ranks``, and warm a process up; ``%load_ext`` calls this."""
    from helpers.cluster.kernel import magic

    magics = magic.RanksMagics(shell)
    shell.register_magics(magics)
    shell.events.register("post_run_cell", unlink_when_alone)
    if kernel := getattr(shell, "kernel", None):
        magic.install(kernel, magics.who_runs)
    keep_warm()
    # What is imported by now lives as long as the kernel. Left out of garbage collection, it is not
    # walked through again and again when the kernel ends, which is most of the time that takes;
    # what the reader makes from here on is collected as ever.
    gc.freeze()
