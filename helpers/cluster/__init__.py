"""Real MPI ranks in a notebook: ``Cluster``, and the ``%%ranks`` magic (``%load_ext``)."""

from helpers.cluster.cluster import Cluster
from helpers.cluster.errors import (
    ClusterError,
    RankDiedError,
    RankError,
    RanksInterrupted,
    RankTimeoutError,
    StartError,
)

__all__ = [
    "Cluster",
    "ClusterError",
    "RankDiedError",
    "RankError",
    "RankTimeoutError",
    "RanksInterrupted",
    "StartError",
]


def load_ipython_extension(shell) -> None:
    """Register ``%%ranks`` (IPython calls this at ``%load_ext helpers.cluster``)."""
    from helpers.cluster.magic import RanksMagics

    shell.register_magics(RanksMagics)
