"""Ranks on other hosts that mpiexec reaches by ssh, in one world."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from helpers.cluster.errors import StartError, words
from helpers.cluster.start.guarded import GuardedProcesses, address_towards, mpiexec
from helpers.cluster.start.processes import Processes
from helpers.machine.mpi import mpi_library

CONNECT_SECONDS = 10


@dataclass(frozen=True)
class Ssh:
    """Ranks that mpiexec starts by ssh, in blocks, on hosts that ssh reaches without asking."""

    hosts: Iterable[str] = ()
    way: ClassVar[str] = "ssh"
    most: ClassVar[int] = 100_000

    def __post_init__(self) -> None:
        expected = "names of hosts, such as ('node1', 'node2')"
        object.__setattr__(self, "hosts", words("hosts", self.hosts, expected, r"(?!-)[\w.@-]+"))

    def processes(self, n: int, threads: int) -> Processes:
        """Return the processes of a cluster, not yet started."""
        hosts = tuple(self.hosts)
        if not 1 <= len(hosts) <= n:
            raise ValueError(
                f"hosts={hosts!r} with n={n}: expected names of hosts, from 1 to as many as there "
                "are ranks"
            )
        return SshProcesses(n, threads, hosts)


class SshProcesses(GuardedProcesses):
    """A controller and mpiexec here, ranks on the hosts in blocks."""

    def __init__(self, n: int, threads: int, hosts: tuple[str, ...]) -> None:
        mpiexec()  # before anything is made
        self._names = hosts
        super().__init__(n, threads)

    def address(self) -> str:
        return address_towards(name.rpartition("@")[2] for name in self._names)

    def launch(self) -> list[str]:
        """Return what tells mpiexec how many ranks go where; the first hosts get one more."""
        each, more = divmod(self.n, len(self._names))
        shares = [(name, each + (number < more)) for number, name in enumerate(self._names)]
        placed = ",".join(f"{name}:{share}" for name, share in shares)
        if mpi_library().startswith("Open MPI"):
            return [mpiexec(), "--host", placed]
        return [mpiexec(), "-launcher", "ssh", "-hosts", placed]

    def start(self) -> None:
        self._try_hosts()
        super().start()

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
        raise StartError("no program ssh here: Ssh(...) starts ranks by it") from None
