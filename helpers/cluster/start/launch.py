"""Processes that ipyparallel launches: its controller, a batch system, the ranks."""

from __future__ import annotations

import logging
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helpers.cluster.rank import state
from helpers.cluster.start.connection import close, has_curve, without_false_alarm
from helpers.cluster.start.processes import Processes, how

if TYPE_CHECKING:
    import ipyparallel
    from traitlets.config import Config

HEARTBEAT_MS = 100  # ipyparallel registers an engine at a heartbeat; its default is 3000 ms
HEARTBEAT_MISSES = 100  # 10 s without one: dead


class LaunchedProcesses(Processes):
    """Processes that an engine launcher of ipyparallel starts elsewhere."""

    place: str | None = "."  # where the folder is made: somewhere that all hosts see
    here = False  # whether the ranks run on this machine

    def __init__(self, n: int, launcher: str, profile: str | None, threads: int) -> None:
        folder = tempfile.mkdtemp(prefix="ranks-", dir=self.place)
        super().__init__(n, threads, Path(folder), self.here)
        self.engine_set: str | None = None
        self._before: set[int] = set()  # numbers of ranks that are ended
        self.ipp = self._configure(launcher, profile)

    def _configure(self, launcher: str, profile: str | None) -> ipyparallel.Cluster:
        import ipyparallel
        from traitlets.config import Config

        config = Config()
        config.EngineLauncher.engine_cmd = self.rank_program()
        config.EngineLauncher.engine_args = self.rank_arguments()
        period, misses = self.heartbeat()
        config.ControllerLauncher.controller_args = [
            f"--HeartMonitor.period={period}",
            f"--HeartMonitor.max_heartmonitor_misses={misses}",
            "--IPController.use_threads=True",
            f"--IPController.enable_curve={has_curve()}",
        ]
        options = {"profile": profile} if profile else {}
        options |= self._options(config, profile)
        log = logging.Logger("helpers.cluster", logging.CRITICAL)
        return ipyparallel.Cluster(
            engines=launcher,
            n=self.n,
            config=config,
            cluster_id=self.folder.name,
            log=log,
            load_profile=bool(profile),
            send_engines_connection_env=False,
            **options,
        )

    def _options(self, config: Config, profile: str | None) -> dict:
        """Return what else ipyparallel's Cluster is told; the rest goes into ``config``."""
        return {"controller_ip": "*", "shutdown_atexit": True}

    def heartbeat(self) -> tuple[int, int]:
        """Return the milliseconds between signs of life, and how many may be missing."""
        return HEARTBEAT_MS, HEARTBEAT_MISSES

    def rank_program(self) -> list[str]:
        """Return the program of a rank."""
        return [sys.executable, "-m", "helpers.cluster.rank.engine"]

    def rank_arguments(self) -> list[str]:
        """Return what the program of a rank is told."""
        return [
            f"--RankEngine.state_dir={self.state_dir}",
            f"--RankEngine.threads={self.threads}",
            "--RankEngine.enable_nanny=False",  # a second process per rank; the guard does its work
            "--RankEngine.wait_for_url_file=60",
        ]

    # -- start ----------------------------------------------------------------------------------

    def start(self) -> None:
        self.ipp.start_controller_sync()
        self.start_ranks()

    def start_ranks(self) -> None:
        state.clear(self.state_dir)
        # an empty PYTHONWARNINGS: else it may make errors of the libraries' warnings
        environment = {"PYTHONWARNINGS": "", **self.environment()}
        self.engine_set = self.ipp.start_engines_sync(self.n, environment=environment)

    def environment(self) -> dict[str, str]:
        """Return variables of the environment that ranks get besides."""
        return {}

    def connect(self) -> ipyparallel.Client:
        if self.client is None:
            with without_false_alarm():
                self.client = self.ipp.connect_client_sync()
        return self.client

    # -- state ----------------------------------------------------------------------------------

    def registered(self) -> list[int]:
        numbers = set(self.connect().ids)
        self._before &= numbers
        return sorted(numbers - self._before)

    def ask_again(self) -> None:
        if not self._before:  # an answer that is late would bring the last ranks back
            super().ask_again()

    def ranks_exited(self) -> bool:
        return _exited(self.ipp.engines.get(self.engine_set))

    def controller_exited(self) -> bool:
        return _exited(self.ipp.controller)

    def dead_rank(self) -> tuple[int | None, str]:
        for rank, code in state.exits(self.state_dir):
            killed = code - 128 in signal.valid_signals()  # as a shell counts it
            where = f"on {self.host_names[rank]}, " if self.host_names else ""
            return rank, where + how(128 - code if killed else code)
        return None, ""

    def ranks_output(self) -> str:
        launcher = self.ipp.engines.get(self.engine_set)
        return _read_log(launcher)

    def controller_output(self) -> str:
        return _read_log(self.ipp.controller)

    # -- end ------------------------------------------------------------------------------------

    def forget_ranks(self) -> None:
        """Note which ranks are about to be ended: the controller will know them for a while."""
        self._before = set(self.connect().ids)

    def kill_ranks(self) -> None:
        self.forget_ranks()
        if self.engine_set in self.ipp.engines:
            self.ipp.stop_engines_sync(self.engine_set)

    def stop(self) -> None:
        self.ipp.stop_cluster_sync()
        self._clear()

    def _clear(self) -> None:
        client, self.client = self.client, None
        if client is not None:
            close(client)
        shutil.rmtree(self.folder, ignore_errors=True)


def _exited(launcher: Any) -> bool:
    """Tell whether a launcher's process has ended.

    Its own thread waits for that; to poll beside it would take the exit code away from it.
    """
    if launcher is None:
        return True
    thread = getattr(launcher, "_wait_thread", None)
    return launcher.state == "after" if thread is None else not thread.is_alive()


def _read_log(launcher: Any) -> str:
    """Return what a launcher's process wrote, also when ipyparallel has removed the file.

    It does so in its callback for a process that ended, and keeps the text it found.
    """
    try:
        return Path(launcher.output_file).read_text(errors="replace")
    except (AttributeError, OSError):
        return getattr(launcher, "_output", None) or ""
