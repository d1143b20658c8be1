"""Start and end the processes of a cluster: ipyparallel's controller, mpiexec and the ranks."""

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
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from helpers.cluster import state, stuck
from helpers.cluster.connection import has_curve, without_false_alarm
from helpers.cluster.errors import StartError
from helpers.cluster.stuck import Wait

if TYPE_CHECKING:
    import ipyparallel

HEARTBEAT_MS = 100  # ipyparallel registers an engine at a heartbeat; its default is 3000 ms
HEARTBEAT_MISSES = 100  # 10 s without one: dead
STOP_SECONDS = 3.0
STACK_SECONDS = 0.1
GUARD = Path(__file__).with_name("guard.py")

# One rank under a shell that writes down its exit code: when one rank dies mpiexec kills the
# others, and then cannot say (MPICH) which was the first. The folder is $0.
RANK_SCRIPT = (
    '"$@"; code=$?; '
    f'echo $code > "$0/{state.EXIT}${{PMI_RANK:-${{OMPI_COMM_WORLD_RANK:-$PMIX_RANK}}}}"; '
    "exit $code"
)

# Open MPI refuses to run as root or with more ranks than cores unless told otherwise: a classroom's
# containers do the former, a course on two cores the latter. MPICH ignores these.
OPEN_MPI_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_mpi_yield_when_idle": "1",
}


def find_mpiexec() -> str:
    """Return the path of mpiexec: the one beside this Python, else the first on PATH.

    Returns
    -------
    str
        An absolute path.

    Raises
    ------
    StartError
        If there is none.
    """
    beside = Path(sys.executable).with_name("mpiexec")
    if beside.exists():
        return str(beside)
    found = shutil.which("mpiexec")
    if found is None:
        raise StartError(
            f"no mpiexec beside {sys.executable} and none on PATH. "
            "Install an MPI, for example with 'pip install mpich mpi4py'."
        )
    return found


class Processes:
    """The processes of one cluster, and the folder they share (removed at the end).

    Parameters
    ----------
    n : int
        The number of ranks.
    launcher : str
        ``"mpi"`` for ranks on this machine, else any engine launcher of ipyparallel (``"slurm"``,
        ``"pbs"``, ``"ssh"``...).
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
        self.n = n
        self.local = launcher == "mpi"
        self.client: ipyparallel.Client | None = None
        self.engine_set: str | None = None
        self._lock_file: TextIO | None = None
        self.folder = Path(tempfile.mkdtemp(prefix="ranks-", dir=None if self.local else "."))
        self.folder = self.folder.resolve()
        self.state_dir = self.folder / "state"
        self.state_dir.mkdir()
        self.ipp = self._configure(launcher, profile, threads)

    def _configure(self, launcher: str, profile: str | None, threads: int) -> ipyparallel.Cluster:
        import ipyparallel
        from traitlets.config import Config

        config = Config()
        engine = [sys.executable, "-m", "helpers.cluster.engine"]
        if self.local:
            engine = ["sh", "-c", RANK_SCRIPT, str(self.state_dir), *engine]
        config.EngineLauncher.engine_cmd = engine
        config.EngineLauncher.engine_args = [
            f"--RankEngine.state_dir={self.state_dir}",
            f"--RankEngine.threads={threads}",
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
            guard = [
                sys.executable,
                "-I",
                "-S",
                str(GUARD),
                str(self.folder / "lock"),
                str(self.folder),
            ]
            config.MPILauncher.mpi_cmd = [*guard, find_mpiexec()]
            config.LocalControllerLauncher.controller_cmd = [
                *guard,
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
            engines=launcher,
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
        """Start the controller and the ranks together; neither waits for the other."""
        self.ipp.start_controller_sync()
        self.start_ranks()

    def start_ranks(self) -> None:
        """Start a set of ranks under the controller that is there already."""
        state.clear(self.state_dir)
        self.engine_set = self.ipp.start_engines_sync(
            self.n, environment=OPEN_MPI_ENVIRONMENT if self.local else {}
        )

    def connect(self) -> ipyparallel.Client:
        """Return the client, connected to the controller (waits for its file).

        Returns
        -------
        ipyparallel.Client
            The same one at each call.
        """
        if self.client is None:
            with without_false_alarm():
                self.client = self.ipp.connect_client_sync()
        return self.client

    # -- state ----------------------------------------------------------------------------------

    def ranks_exited(self) -> bool:
        """Tell whether mpiexec, and with it every rank, has ended.

        Returns
        -------
        bool
            Also True before any were started.
        """
        return _exited(self.ipp.engines.get(self.engine_set))

    def controller_exited(self) -> bool:
        """Tell whether the controller has ended.

        Returns
        -------
        bool
            Also True before it was started.
        """
        return _exited(self.ipp.controller)

    def dead_rank(self) -> tuple[int | None, str]:
        """Return which rank ended first, and how.

        Returns
        -------
        (int or None, str)
            ``(None, "")`` where it cannot be told.
        """
        for rank, code in state.exits(self.state_dir):
            return rank, _how(code)
        return None, ""

    def ranks_output(self) -> str:
        """Return what mpiexec and the ranks wrote before they had a notebook to write to.

        Returns
        -------
        str
            Empty if there is nothing.
        """
        launcher = self.ipp.engines.get(self.engine_set)
        return _read_log(launcher)

    def controller_output(self) -> str:
        """Return what the controller wrote.

        Returns
        -------
        str
            Empty if there is nothing.
        """
        return _read_log(self.ipp.controller)

    def waits(self, running: Collection[int], pids: dict[int, int]) -> list[Wait]:
        """Return what each of the running ranks is doing.

        Parameters
        ----------
        running : collection of int
            The ranks that have not replied.
        pids : dict of int to int
            Each rank's process.

        Returns
        -------
        list of Wait
            In rank order.
        """
        now = time.time()
        waits = {wait.rank: wait for wait in stuck.read(self.state_dir, running, now)}
        silent = [rank for rank in stuck.silent(self.state_dir, running, now) if rank in pids]
        if silent and self.local:
            for rank in silent:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pids[rank], signal.SIGUSR1)  # its faulthandler writes its stack
            time.sleep(STACK_SECONDS)
            for rank in silent:
                text = state.stack_file(self.state_dir, rank).read_text()
                since = now - state.confirmed(self.state_dir, rank)
                waits[rank] = stuck.from_stack(text, rank, since)
        return list(waits.values())

    def interrupt_ranks(self) -> None:
        """Ask every busy rank to raise KeyboardInterrupt (its watcher looks every 0.1 s)."""
        state.ask_to_stop(self.state_dir)

    # -- end ------------------------------------------------------------------------------------

    def kill_ranks(self) -> None:
        """End the ranks now, whatever they are doing."""
        launcher = self.ipp.engines.pop(self.engine_set, None)
        if launcher is None:
            return
        if self.local:
            _terminate([launcher])
        else:
            self.ipp.engines[self.engine_set] = launcher
            self.ipp.stop_engines_sync(self.engine_set)

    def stop(self) -> None:
        """End every process and remove the folder; safe to call again."""
        if self.local:
            launchers = [*self.ipp.engines.values(), self.ipp.controller]
            _terminate([launcher for launcher in launchers if launcher is not None])
            self.ipp.engines.clear()
            self.ipp.controller = None
        else:
            self.ipp.stop_cluster_sync()
        client, self.client = self.client, None
        if client is not None:
            client.close()
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None
        shutil.rmtree(self.folder, ignore_errors=True)
        sweep_topology_files()


def _how(code: int) -> str:
    """Put a shell's exit code into words."""
    number = code - 128
    if number == signal.SIGKILL:
        return "killed by signal 9 (SIGKILL): by someone, or by the system for lack of memory"
    if number in signal.valid_signals():
        return f"killed by signal {number} ({signal.Signals(number).name})"
    return f"it ended with exit code {code}"


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


def sweep_topology_files(folder: Path = Path("/tmp"), age: float = 300.0) -> None:
    """Remove files with the machine's topology that MPICH's mpiexec makes and leaves behind.

    A rank reads the file in its first second. Which file is whose cannot be told.

    Parameters
    ----------
    folder : Path
        Where mpiexec puts them.
    age : float
        Seconds: younger files stay, since another start may still need them.
    """
    for path in folder.glob("hydra_hwloc_xmlfile_*"):
        with contextlib.suppress(OSError):  # another user's, or swept by another cluster
            if time.time() - path.stat().st_mtime > age:
                path.unlink()
