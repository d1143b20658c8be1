"""The program of one rank: an ipyparallel engine whose MPI is watched.

mpiexec starts ``python -m helpers.cluster.rank.engine`` once per rank; a process forked for a rank
calls :meth:`RankEngine.begin`.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from pathlib import Path

from ipyparallel.engine.app import IPEngine
from traitlets import Bool, Integer, Unicode, default
from traitlets.config import Config

from helpers.cluster.rank.descriptors import RankStream
from helpers.machine.mpi import THREAD_VARIABLES
from helpers.waiting import comes_true

WRITING_SECONDS = 10.0
CONTROLLER_SECONDS = 60.0
LOOK_SECONDS = 0.002


class RankEngine(IPEngine):
    """An engine that knows its rank, shares its cores fairly and tells what it waits for."""

    state_dir = Unicode(config=True, help="where each rank writes what it is waiting for")
    threads = Integer(1, config=True, help="threads that numerical libraries may use on a rank")
    forked = Bool(False, help="whether the process that forked this one sees it end")

    @default("out_stream_factory")
    def _rank_stream(self) -> type[RankStream]:
        return RankStream

    @classmethod
    def begin(cls, ident: str, state_dir: str, threads: int, url_file: str) -> None:
        """Run a forked rank until it is killed; `url_file` may still have to be written."""
        comes_true(Path(url_file).exists, CONTROLLER_SECONDS, LOOK_SECONDS)
        config = Config()
        config.ProfileDir.location = str(Path(url_file).parents[1])
        config.RankEngine = Config(
            url_file=url_file,
            state_dir=state_dir,
            threads=threads,
            work_dir=os.getcwd(),  # by default where this module was imported
            enable_nanny=False,
            log_level=logging.ERROR,
        )
        program = cls.instance(ident=ident, forked=True, config=config)
        program.initialize([])
        program.log.setLevel(logging.ERROR)  # not of its handlers alone: records cost time
        program.start()

    def parse_command_line(self, argv: list[str] | None = None) -> None:
        """Read the command line; a forked rank has none, and need not build the parser for it."""
        if not self.forked:
            super().parse_command_line(argv)

    def initialize(self, argv: list[str] | None = None) -> None:
        """Read the configuration, then start MPI before any numerical library is imported."""
        super().initialize(argv)
        for name in THREAD_VARIABLES:
            os.environ[name] = str(self.threads)
        from helpers.cluster.rank.rankside import RankSide

        self.side = RankSide(self.state_dir)
        self.user_ns = self.side.namespace
        self.init_mpi = ""  # the namespace has MPI, comm, rank and size already

    def init_signal(self) -> None:
        """Let SIGTERM end this process at once, as it ends any other.

        ipyparallel's own handler stops the engine's loop, after which MPI is finalized, which waits
        for all ranks. Slurm and mpiexec send SIGTERM to all of them, and to the proxy between them:
        whoever comes later would wait for ever for those that are gone (Slurm: until KillWait,
        30 s). A rank within C code, or a process that it forked, would not even hear of it.
        """
        super().init_signal()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

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

    def start_heartbeat(self, *args: object) -> None:
        """Tell the controller that this rank is connected."""
        if self.forked:
            told = {"uuid": self.ident}
            self.session.send(self.registrar, "rank_connected", content=told)
        else:
            super().start_heartbeat(*args)


if __name__ == "__main__":
    sys.exit(RankEngine.launch_instance())
