"""Processes that ipyparallel launches: its controller, mpiexec (or a batch system), the ranks."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from helpers.cluster import state
from helpers.cluster.connection import close, has_curve, without_false_alarm
from helpers.cluster.errors import StartError
from helpers.cluster.processes import Processes, how
from helpers.machine import guard
from helpers.machine.mpi import OPEN_MPI_ENVIRONMENT, NoMpiexecError, find_mpiexec, mpi_library
from helpers.machine.shared_memory import ucx_transports, why_not_enough

if TYPE_CHECKING:
    import ipyparallel

HEARTBEAT_MS = 100  # ipyparallel registers an engine at a heartbeat; its default is 3000 ms
HEARTBEAT_MISSES = 100  # 10 s without one: dead
STOP_SECONDS = 3.0

# One rank under a shell that writes down its exit code: when one rank dies mpiexec kills the
# others, and then cannot say (MPICH) which was the first. The folder is $0.
RANK_SCRIPT = (
    '"$@"; code=$?; '
    f'echo $code > "$0/{state.EXIT}${{PMI_RANK:-${{OMPI_COMM_WORLD_RANK:-$PMIX_RANK}}}}"; '
    "exit $code"
)


def _mpiexec() -> str:
    """The path of mpiexec; StartError says what is missing."""
    try:
        return find_mpiexec()
    except NoMpiexecError as error:
        raise StartError(str(error)) from None


class LaunchedProcesses(Processes):
    """Processes that launchers of ipyparallel start: by mpiexec here, or elsewhere.

    Parameters
    ----------
    n : int
        The number of ranks.
    launcher : str
        ``"mpiexec"`` for ranks on this machine, else any engine launcher of ipyparallel
        (``"slurm"``, ``"pbs"``, ``"ssh"``...).
    profile : str, optional
        The IPython profile that configures the launcher.
    threads : int
        What numerical libraries may use on each rank.

    Raises
    ------
    StartError
        If there is no mpiexec.
    """

    def __init__(self, n: int, launcher: str, profile: str | None, threads: int) -> None:
        if launcher == "mpiexec":
            _mpiexec()  # before anything is made
        local = launcher == "mpiexec"
        folder = tempfile.mkdtemp(prefix="ranks-", dir=None if local else ".")
        super().__init__(n, threads, Path(folder), local)
        self.engine_set: str | None = None
        self._before: set[int] = set()  # numbers of ranks that are ended
        self._lock_file: TextIO | None = None
        self.ipp = self._configure(launcher, profile)

    def _configure(self, launcher: str, profile: str | None) -> ipyparallel.Cluster:
        import ipyparallel
        from traitlets.config import Config

        config = Config()
        engine = [sys.executable, "-m", "helpers.cluster.engine"]
        if self.local:
            engine = ["sh", "-c", RANK_SCRIPT, str(self.state_dir), *engine]
        config.EngineLauncher.engine_cmd = engine
        config.EngineLauncher.engine_args = [
            f"--RankEngine.state_dir={self.state_dir}",
            f"--RankEngine.threads={self.threads}",
            "--RankEngine.enable_nanny=False",  # a second process per rank; the guard does its work
            "--RankEngine.wait_for_url_file=60",
        ]
        config.ControllerLauncher.controller_args = [
            f"--HeartMonitor.period={HEARTBEAT_MS}",
            f"--HeartMonitor.max_heartmonitor_misses={HEARTBEAT_MISSES}",
            "--IPController.use_threads=True",
            f"--IPController.enable_curve={has_curve()}",
        ]
        options: dict = {"profile": profile} if profile else {}
        if self.local:
            self._lock_file = open(self.folder / "lock", "w")  # noqa: SIM115 (held while we live)
            fcntl.lockf(self._lock_file, fcntl.LOCK_EX)
            guarded = [
                sys.executable,
                "-I",
                "-S",
                guard.__file__,
                str(self.folder / "lock"),
                str(self.folder),
            ]
            config.MPILauncher.mpi_cmd = [*guarded, _mpiexec()]
            config.LocalControllerLauncher.controller_cmd = [
                *guarded,
                sys.executable,
                "-m",
                "ipyparallel.controller",
            ]
            if not profile:
                options["profile_dir"] = str(self.folder / "profile")
        else:
            options["controller_ip"] = "*"
        log = logging.Logger("helpers.cluster", logging.CRITICAL)
        return ipyparallel.Cluster(
            engines="mpi" if self.local else launcher,
            n=self.n,
            config=config,
            cluster_id=self.folder.name,
            log=log,
            load_profile=bool(profile),
            shutdown_atexit=not self.local,
            send_engines_connection_env=False,
            **options,
        )

    # -- start ----------------------------------------------------------------------------------

    def start(self) -> None:
        self.ipp.start_controller_sync()
        self.start_ranks()

    def start_ranks(self) -> None:
        state.clear(self.state_dir)
        if self.local and mpi_library().startswith("MPICH") and (why := why_not_enough(self.n)):
            raise StartError(why)
        self.engine_set = self.ipp.start_engines_sync(
            self.n, environment=_environment() if self.local else {}
        )

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
            return rank, how(128 - code if killed else code)
        return None, ""

    def ranks_output(self) -> str:
        launcher = self.ipp.engines.get(self.engine_set)
        return _read_log(launcher)

    def controller_output(self) -> str:
        return _read_log(self.ipp.controller)

    # -- end ------------------------------------------------------------------------------------

    def kill_ranks(self) -> None:
        self._before = set(self.connect().ids)
        launcher = self.ipp.engines.pop(self.engine_set, None)
        if launcher is None:
            return
        if self.local:
            _terminate([launcher])
        else:
            self.ipp.engines[self.engine_set] = launcher
            self.ipp.stop_engines_sync(self.engine_set)

    def stop(self) -> None:
        if self.local:
            launchers = [*self.ipp.engines.values(), self.ipp.controller]
            _terminate([launcher for launcher in launchers if launcher is not None])
            self.ipp.engines.clear()
            self.ipp.controller = None
        else:
            self.ipp.stop_cluster_sync()
        client, self.client = self.client, None
        if client is not None:
            close(client)
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None
        shutil.rmtree(self.folder, ignore_errors=True)
        guard.sweep_topologies()


def _environment() -> dict[str, str]:
    """What ranks of this machine are told; the ports that UCX would open are closed to all."""
    return {"UCX_TLS": os.environ.get("UCX_TLS") or ucx_transports(), **OPEN_MPI_ENVIRONMENT}


def _exited(launcher: Any) -> bool:
    """Tell whether a launcher's process has ended.

    Its own thread waits for that; to poll beside it would take the exit code away from it.
    """
    if launcher is None:
        return True
    thread = getattr(launcher, "_wait_thread", None)
    return launcher.state == "after" if thread is None else not thread.is_alive()


def _terminate(launchers: list) -> None:
    """SIGTERM the guards of these launchers and wait until they, and all below them, are gone."""
    import psutil

    for launcher in launchers:
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            launcher.process.terminate()
    deadline = time.monotonic() + STOP_SECONDS
    for launcher in launchers:
        launcher._wait_thread.join(max(0.1, deadline - time.monotonic()))
        if launcher._wait_thread.is_alive():
            launcher.process.kill()


def _read_log(launcher: Any) -> str:
    try:
        return Path(launcher.output_file).read_text(errors="replace")
    except (AttributeError, OSError):
        return ""
