"""What a user may choose for a group of the backend ``"mpi4py"``."""

from __future__ import annotations

from dataclasses import dataclass

PATHS = ("auto", "window", "network")

BACKEND = "mpi4py"  # what torch calls it


@dataclass(frozen=True)
class Options:
    """What ``init_process_group(..., pg_options=Options(...))`` and ``new_group`` accept.

    ``path`` is the way of the collectives: ``"window"`` (memory shared by the ranks of one host),
    ``"network"`` (MPI's own collectives), or ``"auto"``: the window if all ranks share a host with
    enough shared memory. ValueError for another.
    """

    path: str = "auto"

    def __post_init__(self) -> None:
        if self.path not in PATHS:
            raise ValueError(f"path expects one of {', '.join(PATHS)}; got {self.path!r}")
