"""What forked processes run."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from helpers.cluster.start.folders import SOCKETS
from helpers.cluster.start.forkserver import preload
from helpers.cluster.start.forkserver.pmi import READY
from helpers.machine.shared_memory import ucx_transports


@dataclass(frozen=True)
class Place:
    """Where a process stands in its family, and a socket to the process that forked it.

    The socket stays open to the very end: MPICH takes its leave after Python has ended.
    """

    rank: int
    size: int
    parent: int

    def ready(self) -> None:
        """Say that this process is ready for its work."""
        os.write(self.parent, READY)

    def initialize_mpi(self, network: dict | None = None) -> None:
        """Initialise MPI among the members of the family, on hosts if a `network` is given."""
        if network:
            from helpers.cluster.start.network.keeper import join

            join(Path(network["status"]), network["places"][self.rank])
        else:
            os.environ.setdefault("UCX_TLS", ucx_transports())  # else UCX opens a port
        asked = {"PMI_FD": self.parent, "PMI_RANK": self.rank, "PMI_SIZE": self.size}
        os.environ.update({name: str(value) for name, value in asked.items()}, PMI_SPAWNED="0")
        for name in [name for name in os.environ if name.startswith("PMIX_")]:
            del os.environ[name]  # of the job that the notebook runs in, as srun --mpi=pmix sets it
        from mpi4py import MPI

        MPI.Init_thread(MPI.THREAD_MULTIPLE)
        for name in (*asked, "PMI_SPAWNED"):  # a process that this one starts is a world of its own
            del os.environ[name]
        self.ready()


def controller(place: Place, folder: str, cluster_id: str) -> None:
    """Run ipyparallel's controller."""
    from helpers.cluster.start.controller import RankController

    sys.argv = ["controller"]
    RankController.begin(folder, f"{folder}/{SOCKETS}", cluster_id, place.ready)


def engine(
    place: Place,
    family: str,
    state_dir: str,
    threads: int,
    url_file: str,
    network: dict | None = None,
) -> None:
    """Run a rank that the notebook calls."""
    place.initialize_mpi(network)
    from helpers.cluster.rank.engine import RankEngine

    sys.argv = ["engine"]
    preload.forget_edited()
    sys.path.insert(0, "")  # as in a notebook: the reader's modules come first from now on
    RankEngine.begin(f"{family}-{place.rank}", state_dir, threads, url_file)


def script(place: Place, path: str) -> None:
    """Run a Python script, as ``python script.py`` does."""
    place.initialize_mpi()
    from mpi4py import MPI

    sys.argv = [path]
    sys.path.insert(0, os.path.dirname(path))
    runpy.run_path(path, run_name="__main__")
    if not MPI.Is_finalized():
        MPI.Finalize()


def network(place: Place, folder: str, network: dict) -> None:
    """Make hosts and keep them."""
    from helpers.cluster.start.network.keeper import keep

    keep(place.ready, folder, network)


PROGRAMS: dict[str, Callable[..., None]] = {
    "controller": controller,
    "engine": engine,
    "network": network,
    "script": script,
}
# a rank that the notebook calls never ends by itself: if it does, something is wrong with it
NEED_MPI = ("engine", "script")
INSEPARABLE = {"controller": True, "engine": True, "network": True, "script": False}
