"""The program of one rank: an ipyparallel engine whose MPI is watched.

mpiexec starts ``python -m helpers.cluster.engine`` once per rank.
"""

from __future__ import annotations

import os
import sys
import time

from ipyparallel.engine.app import IPEngine
from traitlets import Integer, Unicode

WRITING_SECONDS = 10.0
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


class RankEngine(IPEngine):
    """An engine that knows its rank, shares its cores fairly and tells what it waits for."""

    state_dir = Unicode(config=True, help="where each rank writes what it is waiting for")
    threads = Integer(1, config=True, help="threads that numerical libraries may use on a rank")

    def initialize(self, argv: list[str] | None = None) -> None:
        """Read the configuration, then start MPI before any numerical library is imported.

        Parameters
        ----------
        argv : list of str, optional
            The command line, by default this process's.
        """
        super().initialize(argv)
        for name in THREAD_VARIABLES:
            os.environ[name] = str(self.threads)
        from helpers.cluster.rankside import RankSide

        self.side = RankSide(self.state_dir)
        self.user_ns = self.side.namespace
        self.init_mpi = ""  # the namespace has MPI, comm, rank and size already

    def load_connection_file(self) -> None:
        """Read the controller's file; it starts together with the ranks and may still write it."""
        deadline = time.monotonic() + WRITING_SECONDS
        while True:
            try:
                super().load_connection_file()
                return
            except ValueError:  # half a JSON file
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)


if __name__ == "__main__":
    # not __main__.RankEngine: code on the rank finds the running engine by this class
    from helpers.cluster.engine import RankEngine as Program

    sys.exit(Program.launch_instance())
