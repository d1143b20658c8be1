"""Processes that a guard ends together with the notebook: ipyparallel's controller, mpiexec."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from helpers.cluster.errors import StartError
from helpers.cluster.rank import state
from helpers.cluster.start.processes import Processes, close, how
from helpers.machine import guard
from helpers.machine.mpi import (
    OPEN_MPI_CLOSED,
    OPEN_MPI_ENVIRONMENT,
    NoMpiexecError,
    find_mpiexec,
    mpi_library,
)
from helpers.machine.shared_memory import ucx_transports, why_not_enough

if TYPE_CHECKING:
    import ipyparallel

STOP_SECONDS = 3.0
MOST_ASKED_FOR = 16  # hosts: each name may have to be looked up
# ipyparallel registers an engine at a heartbeat; its default is 3000 ms. Without one for 10 s an
# engine is dead, and for 5 s on another host, which may be lost.
HEARTBEAT_MS, HEARTBEAT_MISSES = 100, 100
AWAY_HEARTBEAT_MS, AWAY_HEARTBEAT_MISSES = 250, 20

# One rank under a shell that writes down its exit code: when one rank dies mpiexec kills the
# others, and then cannot say (MPICH) which was the first. The folder is $0.
RANK_SCRIPT = (
    '"$@"; code=$?; '
    f'echo $code > "$0/{state.EXIT}${{PMI_RANK:-${{OMPI_COMM_WORLD_RANK:-$PMIX_RANK}}}}"; '
    "exit $code"
)


@dataclass(frozen=True)
class Mpiexec:
    """Ranks that ``mpiexec`` starts on this machine: the way of Open MPI."""

    way: ClassVar[str] = "mpiexec"
    most: ClassVar[int] = 64

    def processes(self, n: int, threads: int) -> Processes:
        """Return the processes of a cluster, not yet started."""
        return LocalProcesses(n, threads)


def mpiexec() -> str:
    """Return the path of mpiexec; raise StartError if it is missing."""
    try:
        return find_mpiexec()
    except NoMpiexecError as error:
        raise StartError(str(error)) from None


class GuardedProcesses(Processes):
    """Processes that end as soon as the kernel that started them does, ``kill -9`` included.

    Ranks on other hosts reach the controller at the one address of this host that is in their
    network; who has not the key in the cluster's folder can say nothing there.
    """

    place: str | None = "."  # where the folder is made: somewhere that all hosts see
    here = False  # whether the ranks run on this machine

    def __init__(self, n: int, threads: int) -> None:
        folder = tempfile.mkdtemp(prefix="ranks-", dir=self.place)
        super().__init__(n, threads, Path(folder), self.here)
        self.engine_set: str | None = None
        self._before: set[int] = set()  # numbers of ranks that are ended
        try:
            self._lock_file = (self.folder / "lock").open("w")  # held while we live
            fcntl.lockf(self._lock_file, fcntl.LOCK_EX)
            self.ipp = self._configure()
        except BaseException:  # no guard knows the folder yet; importing ipyparallel takes a while
            shutil.rmtree(folder)
            raise

    def _configure(self) -> ipyparallel.Cluster:
        import ipyparallel
        from traitlets.config import Config

        config = Config()
        config.EngineLauncher.engine_cmd = self.rank_command()  # and what ipyparallel adds
        config.EngineLauncher.engine_args = []
        config.MPILauncher.mpi_cmd = self.guarded(*self.launch())
        controller = self.guarded(sys.executable, "-m", "ipyparallel.controller")
        config.LocalControllerLauncher.controller_cmd = controller
        period, misses = HEARTBEAT_MS, HEARTBEAT_MISSES
        if not self.here:
            period, misses = AWAY_HEARTBEAT_MS, AWAY_HEARTBEAT_MISSES
        config.ControllerLauncher.controller_args = [
            f"--HeartMonitor.period={period}",
            f"--HeartMonitor.max_heartmonitor_misses={misses}",
            "--IPController.use_threads=True",
            "--IPController.enable_curve=True",
        ]
        return ipyparallel.Cluster(
            engines="mpi",
            n=self.n,
            config=config,
            cluster_id=self.folder.name,
            profile_dir=str(self.folder / "profile"),
            controller_ip="" if self.here else self.address(),
            log=logging.Logger("helpers.cluster", logging.CRITICAL),
            load_profile=False,
            send_engines_connection_env=False,
            shutdown_atexit=False,
        )

    def launch(self) -> list[str]:
        """Return mpiexec with what it is told, up to the number of ranks."""
        return [mpiexec()]

    def guarded(self, *command: str) -> list[str]:
        """Return a command that runs this one under guard."""
        lock = str(self.folder / "lock")
        return [sys.executable, "-I", "-S", guard.__file__, lock, str(self.folder), *command]

    def rank_command(self) -> list[str]:
        """Return the command that is a rank."""
        return [
            *("sh", "-c", RANK_SCRIPT, str(self.state_dir)),
            *(sys.executable, "-m", "helpers.cluster.rank.engine"),
            f"--RankEngine.state_dir={self.state_dir}",
            f"--RankEngine.threads={self.threads}",
            "--RankEngine.enable_nanny=False",  # a second process per rank; the guard does its work
            "--RankEngine.wait_for_url_file=60",
        ]

    def address(self) -> str:
        """Return where the controller listens for ranks of other hosts; ``"*"``: everywhere."""
        return "*"

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
        return dict(OPEN_MPI_ENVIRONMENT)

    def connect(self) -> ipyparallel.Client:
        if self.client is None:
            # Jupyter's session warns that messages are not signed; CurveZMQ authenticates them
            before = logging.root.manager.disable
            logging.disable(logging.WARNING)
            try:
                self.client = self.ipp.connect_client_sync()
            finally:
                logging.disable(before)
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
            return rank, self.where(rank) + how(128 - code if killed else code)
        return None, ""

    def ranks_output(self) -> str:
        return _read_log(self.ipp.engines.get(self.engine_set))

    def controller_output(self) -> str:
        return _read_log(self.ipp.controller)

    # -- end ------------------------------------------------------------------------------------

    def forget_ranks(self) -> None:
        """Note which ranks are about to be ended: the controller will know them for a while."""
        self._before = set(self.connect().ids)

    def kill_ranks(self) -> None:
        self.forget_ranks()
        launcher = self.ipp.engines.pop(self.engine_set, None)
        if launcher is not None:
            _terminate([launcher])

    def stop(self) -> None:
        launchers = [*self.ipp.engines.values(), self.ipp.controller]
        _terminate([launcher for launcher in launchers if launcher is not None])
        self.ipp.engines.clear()
        self.ipp.controller = None
        client, self.client = self.client, None
        if client is not None:
            close(client)
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock_file.close()
        guard.sweep_topologies()


class LocalProcesses(GuardedProcesses):
    """Ranks that mpiexec starts on this machine."""

    here, place = True, None

    def __init__(self, n: int, threads: int) -> None:
        mpiexec()  # before anything is made
        super().__init__(n, threads)

    def start_ranks(self) -> None:
        if mpi_library().startswith("MPICH") and (why := why_not_enough(self.n)):
            raise StartError(why)
        super().start_ranks()

    def environment(self) -> dict[str, str]:
        """Return what closes the ports of UCX and Open MPI, unless the environment opens them."""
        closed = {"UCX_TLS": ucx_transports(), **OPEN_MPI_CLOSED}
        opened = {name: os.environ.get(name) or value for name, value in closed.items()}
        return opened | super().environment()


def address_towards(hosts: Iterable[str]) -> str:
    """Return this machine's IPv4 address in the network in which `hosts` are, or ``"*"`` for all.

    ``"*"`` means that no name is known, or that there are several networks. Nothing is sent: the
    system says from which address it would send.
    """
    found = set()
    for host in list(hosts)[:MOST_ASKED_FOR]:
        with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.connect((host, 9))
            found.add(end.getsockname()[0])
    near = {address for address in found if address.startswith("127.")}
    if len(found - near) == 1:
        return (found - near).pop()  # a name of this machine itself may lead to 127.0.0.1
    return near.pop() if found and found == near else "*"


def _exited(launcher: Any) -> bool:
    """Tell whether a launcher's process has ended.

    Its own thread waits for that; to poll beside it would take the exit code away from it.
    """
    return launcher is None or not launcher._wait_thread.is_alive()


def _read_log(launcher: Any) -> str:
    """Return what a launcher's process wrote, also when ipyparallel has removed the file.

    It does so in its callback for a process that ended, and keeps the text it found.
    """
    try:
        return Path(launcher.output_file).read_text(errors="replace")
    except (AttributeError, OSError):
        return getattr(launcher, "_output", None) or ""


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
