"""What the ranks of Open MPI do: their environment has no torch, and borrows this one's."""

from __future__ import annotations

import sys


def check(packages: str) -> str:
    """Do on both paths what ranks of MPICH do; torch comes from the folder ``packages``."""
    sys.path.append(packages)  # at the end: MPI itself is this environment's
    from mpi4py import MPI

    from tests.torch_mpi import ranks

    for path in ("window", "network"):
        ranks.check_movement(path)
        ranks.check_messages(path)
        ranks.check_groups(path)
    return MPI.Get_library_version().split(",")[0]
