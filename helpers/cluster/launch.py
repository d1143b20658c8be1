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

from helpers.cluster import stuck as waiting
from helpers.cluster.connection import has_curve, without_false_alarm
from helpers.cluster.errors import StartError
from helpers.machine import guard
from helpers.machine.mpi import OPEN_MPI_ENVIRONMENT, NoMpiexecError, find_mpiexec

HEARTBEAT_MS = 100  # ipyparallel registers an engine at a heartbeat; its default is 3000 ms
HEARTBEAT_MISSES = 100  # 10 s without one: dead
STOP_SECONDS = 3.0
STACK_SECONDS = 0.1

# One rank under a shell that writes down its exit code: when one rank dies mpiexec kills the
# others, and then cannot say (MPICH) which was the first. The folder is $0.
RANK_SCRIPT = (
    '"$@"; code=$?; '
    'echo $code > "$0/exit-${PMI_RANK:-${OMPI_COMM_WORLD_RANK:-$PMIX_RANK}}"; exit $code'
)


class Processes:
    """The processes of one cluster, and the folder they share (removed at the end).

    ``launcher`` is ``"mpi"`` for ranks on this machine, else any engine launcher of ipyparallel
    (``"slurm"``, ``"pbs"``, ``"ssh"``...), configured by ``profile``.
    """

    def __init__(self, n: int, launcher: str, profile: str | None, threads: int):
        self.n = n
        self.local = launcher == "mpi"
        self.client = None
        self.engine_set: str | None = None
        self._lock_file = None
        self.folder = Path(tempfile.mkdtemp(prefix="ranks-", dir=None if self.local else "."))
        self.folder = self.folder.resolve()
        self.state_dir = self.folder / "state"
        self.state_dir.mkdir()
        (self.state_dir / "interrupt").touch()
        self.ipp = self._configure(launcher, profile, threads)

    def _configure(self, launcher: str, profile: str | None, threads: int):
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
            try:
                mpiexec = find_mpiexec()
            except NoMpiexecError as error:
                raise StartError(str(error)) from None
            guarded = [
                sys.executable,
                "-I",
                "-S",
                guard.__file__,
                str(self.folder / "lock"),
                str(self.folder),
            ]
            config.MPILauncher.mpi_cmd = [*guarded, mpiexec]
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
        for path in self.state_dir.glob("*-*"):
            path.unlink(missing_ok=True)
        self.engine_set = self.ipp.start_engines_sync(
            self.n, environment=OPEN_MPI_ENVIRONMENT if self.local else {}
        )

    def connect(self):
        """Return the ipyparallel client, connected to the controller (waits for its file)."""
        if self.client is None:
            with without_false_alarm():
                self.client = self.ipp.connect_client_sync()
        return self.client

    # -- state ----------------------------------------------------------------------------------

    def ranks_exited(self) -> bool:
        """Tell whether mpiexec, and with it every rank, has ended."""
        return _exited(self.ipp.engines.get(self.engine_set))

    def controller_exited(self) -> bool:
        """Tell whether the controller has ended."""
        return _exited(self.ipp.controller)

    def dead_rank(self) -> tuple[int | None, str]:
        """Return which rank ended first, and how; (None, "") where it cannot be told."""
        found = sorted(self.state_dir.glob("exit-*"), key=lambda path: path.stat().st_mtime_ns)
        for path in found:
            rank, code = path.name.removeprefix("exit-"), path.read_text().strip()
            if rank.isdigit() and code.isdigit():
                return int(rank), _how(int(code))
        return None, ""

    def ranks_output(self) -> str:
        """Return what mpiexec and the ranks wrote before they had a notebook to write to."""
        launcher = self.ipp.engines.get(self.engine_set)
        return _read_log(launcher)

    def controller_output(self) -> str:
        """Return what the controller wrote."""
        return _read_log(self.ipp.controller)

    def waits(self, running: Collection[int], pids: dict[int, int]) -> list[waiting.Wait]:
        """Return what each of the running ranks is doing; ``pids`` maps ranks to processes."""
        now = time.time()
        waits = {wait.rank: wait for wait in waiting.read(self.state_dir, running, now)}
        silent = [rank for rank in waiting.silent(self.state_dir, running, now) if rank in pids]
        if silent and self.local:
            for rank in silent:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pids[rank], signal.SIGUSR1)  # its faulthandler writes its stack
            time.sleep(STACK_SECONDS)
            for rank in silent:
                text = (self.state_dir / f"stack-{rank}").read_text()
                since = now - (self.state_dir / f"rank-{rank}.json").stat().st_mtime
                waits[rank] = waiting.from_stack(text, rank, since)
        return list(waits.values())

    def interrupt_ranks(self) -> None:
        """Ask every busy rank to raise KeyboardInterrupt (its watcher looks every 0.1 s)."""
        now = time.time_ns()
        os.utime(self.state_dir / "interrupt", ns=(now, now))

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


def _exited(launcher) -> bool:
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


def _read_log(launcher) -> str:
    try:
        return Path(launcher.output_file).read_text(errors="replace")
    except (AttributeError, OSError):
        return ""


def sweep_topology_files(folder: Path = Path("/tmp"), age: float = 300.0) -> None:
    """Remove files with the machine's topology that MPICH's mpiexec makes and leaves behind.

    A rank reads the file in its first second. Which file is whose cannot be told, so those younger
    than ``age`` seconds stay: another start may still need them.
    """
    for path in folder.glob("hydra_hwloc_xmlfile_*"):
        with contextlib.suppress(OSError):  # another user's, or swept by another cluster
            if time.time() - path.stat().st_mtime > age:
                path.unlink()
