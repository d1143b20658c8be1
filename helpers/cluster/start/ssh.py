"""Ranks on other hosts that mpiexec reaches by ssh, in one world."""

from __future__ import annotations

import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

from helpers.cluster.errors import StartError
from helpers.cluster.start.arguments import Wishes
from helpers.cluster.start.guarded import GuardedProcesses, address_towards, mpiexec
from helpers.machine.mpi import OPEN_MPI_ENVIRONMENT, mpi_library

if TYPE_CHECKING:
    from traitlets.config import Config

CONNECT_SECONDS = 10


class SshProcesses(GuardedProcesses):
    """A controller and mpiexec here, ranks on the hosts in blocks."""

    def __init__(self, n: int, threads: int, profile: str | None, wishes: Wishes) -> None:
        mpiexec()  # before anything is made
        self._names = wishes.hosts
        super().__init__(n, threads, profile)

    def address(self) -> str:
        return address_towards(name.rpartition("@")[2] for name in self._names)

    def _options(self, config: Config, profile: str | None) -> dict:
        options = super()._options(config, profile)
        config.MPILauncher.mpi_cmd = self.guarded(mpiexec(), *self._placed())
        return options

    def _placed(self) -> list[str]:
        """Return what tells mpiexec how many ranks go where; the first hosts get one more."""
        each, more = divmod(self.n, len(self._names))
        shares = [(name, each + (number < more)) for number, name in enumerate(self._names)]
        placed = ",".join(f"{name}:{share}" for name, share in shares)
        if mpi_library().startswith("Open MPI"):
            return ["--host", placed]
        return ["-launcher", "ssh", "-hosts", placed]

    def start(self) -> None:
        self._try_hosts()
        super().start()

    def environment(self) -> dict[str, str]:
        """Return what ranks are told besides."""
        return dict(OPEN_MPI_ENVIRONMENT)

    def _try_hosts(self) -> None:
        """Raise with its words where a host cannot be had; mpiexec might wait for ever."""
        look = f"test -x {shlex.quote(sys.executable)} && test -d {shlex.quote(str(self.folder))}"
        options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_SECONDS}"]
        tried = {name: _start(["ssh", *options, name, look]) for name in self._names}
        for name, process in tried.items():
            said, _ = process.communicate()
            if process.returncode == 255:
                why = (said.strip().splitlines() or ["it said nothing"])[-1]
                raise StartError(
                    f"ssh does not reach {name} without asking (ssh -o BatchMode=yes {name}): {why}"
                )
            if process.returncode:
                raise StartError(
                    f"{name} does not see {sys.executable} or {self.folder}: start where all hosts "
                    "have the same folders"
                )


def _start(command: list[str]) -> subprocess.Popen[str]:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    except FileNotFoundError:
        raise StartError("no program ssh here: launcher='ssh' starts ranks by it") from None
