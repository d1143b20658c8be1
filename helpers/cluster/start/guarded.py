"""Processes that a guard ends together with the notebook: ipyparallel's controller, mpiexec."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO

from helpers.cluster.errors import StartError
from helpers.cluster.rank.state import EXIT
from helpers.cluster.start.launch import LaunchedProcesses
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
    from traitlets.config import Config

STOP_SECONDS = 3.0
MOST_ASKED_FOR = 16  # hosts: each name may have to be looked up
AWAY_HEARTBEAT_MS, AWAY_HEARTBEAT_MISSES = 250, 20  # a host that is lost is missed after 5 s

# One rank under a shell that writes down its exit code: when one rank dies mpiexec kills the
# others, and then cannot say (MPICH) which was the first. The folder is $0.
RANK_SCRIPT = (
    '"$@"; code=$?; '
    f'echo $code > "$0/{EXIT}${{PMI_RANK:-${{OMPI_COMM_WORLD_RANK:-$PMIX_RANK}}}}"; '
    "exit $code"
)


def mpiexec() -> str:
    """Return the path of mpiexec; raise StartError if it is missing."""
    try:
        return find_mpiexec()
    except NoMpiexecError as error:
        raise StartError(str(error)) from None


class GuardedProcesses(LaunchedProcesses):
    """Processes that end as soon as the kernel that started them does, ``kill -9`` included.

    Ranks on other hosts reach the controller at the one address of this host that is in their
    network; who has not the key in the cluster's folder can say nothing there.
    """

    def __init__(self, n: int, threads: int, profile: str | None, launcher: str = "mpi") -> None:
        self._lock_file: TextIO | None = None
        super().__init__(n, launcher, profile, threads)

    def guarded(self, *command: str) -> list[str]:
        """Return a command that runs this one under guard."""
        lock = str(self.folder / "lock")
        return [sys.executable, "-I", "-S", guard.__file__, lock, str(self.folder), *command]

    def heartbeat(self) -> tuple[int, int]:
        return super().heartbeat() if self.here else (AWAY_HEARTBEAT_MS, AWAY_HEARTBEAT_MISSES)

    def rank_program(self) -> list[str]:
        return ["sh", "-c", RANK_SCRIPT, str(self.state_dir), *super().rank_program()]

    def _options(self, config: Config, profile: str | None) -> dict:
        self._lock_file = open(self.folder / "lock", "w")  # noqa: SIM115 (held while we live)
        fcntl.lockf(self._lock_file, fcntl.LOCK_EX)
        controller = self.guarded(sys.executable, "-m", "ipyparallel.controller")
        config.LocalControllerLauncher.controller_cmd = controller
        options: dict = {"shutdown_atexit": False}
        if not profile:
            options["profile_dir"] = str(self.folder / "profile")
        return options

    def _configure(self, launcher: str, profile: str | None) -> ipyparallel.Cluster:
        ipp = super()._configure(launcher, profile)
        if not self.here and not ipp.controller_ip:  # the profile may know better
            ipp.controller_ip = self.address()
        return ipp

    def address(self) -> str:
        """Return where the controller listens for ranks of other hosts; ``"*"``: everywhere."""
        return "*"

    def kill_ranks(self) -> None:
        self.forget_ranks()
        launcher = self.ipp.engines.pop(self.engine_set, None)
        if launcher is not None:
            _terminate([launcher])

    def stop(self) -> None:
        launchers = [*self.ipp.engines.values(), self.ipp.controller]
        _terminate([launcher for launcher in launchers if launcher is not None])
        files = self.ipp.controller.connection_files.values() if self.ipp.controller else ()
        for path in (*files, self.ipp.cluster_file):  # in a profile's folder they would stay
            with contextlib.suppress(OSError):
                os.unlink(path)
        self.ipp.engines.clear()
        self.ipp.controller = None
        self._clear()
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None
        guard.sweep_topologies()


class LocalProcesses(GuardedProcesses):
    """Ranks that mpiexec starts on this machine."""

    here, place = True, None

    def __init__(self, n: int, threads: int, profile: str | None) -> None:
        mpiexec()  # before anything is made
        super().__init__(n, threads, profile)

    def _options(self, config: Config, profile: str | None) -> dict:
        options = super()._options(config, profile)
        config.MPILauncher.mpi_cmd = self.guarded(mpiexec())
        return options

    def start_ranks(self) -> None:
        if mpi_library().startswith("MPICH") and (why := why_not_enough(self.n)):
            raise StartError(why)
        super().start_ranks()

    def environment(self) -> dict[str, str]:
        """Return what closes the ports of UCX and Open MPI, unless the environment opens them."""
        closed = {"UCX_TLS": ucx_transports(), **OPEN_MPI_CLOSED}
        return {name: os.environ.get(name) or value for name, value in closed.items()} | (
            OPEN_MPI_ENVIRONMENT
        )


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
