"""The processes of a cluster on this machine, forked from a warm one: no mpiexec, no open port."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import secrets
import shutil
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from helpers.cluster.errors import StartError
from helpers.cluster.rank import state
from helpers.cluster.start import folders
from helpers.cluster.start.forkserver import handle
from helpers.cluster.start.hosts import CONNECT_SECONDS, LOOK_SECONDS, STOP_SECONDS, Hosts
from helpers.cluster.start.network import Network
from helpers.cluster.start.processes import Processes, close, how

if TYPE_CHECKING:
    import ipyparallel

LONGEST_PLACE = 76  # bytes: the path of a Unix socket has 103 (macOS) or 107 at most
RENEW_AFTER = 50  # starts of ranks: zmq keeps some 60 kB of each rank that was connected once

VARIABLE = "COURSE_RANKS"  # one of WAYS: how "mpi" starts ranks
WAYS = "fork", "spawn", "mpiexec", "slurm"

_obstacle: list[str] = []  # why ranks cannot be forked in this kernel, once that is known


def way_here() -> str:
    """Choose how to start ranks here: ``"fork"``, ``"spawn"``, ``"mpiexec"`` or ``"slurm"``.

    Fork where that is safe, else start afresh; use mpiexec where MPI is not MPICH. The
    environment's ``COURSE_RANKS`` has the last word, and alone asks for Slurm's nodes.
    """
    asked = os.environ.get(VARIABLE)
    if asked and asked not in WAYS:
        raise StartError(f"{VARIABLE}={asked!r}: expected fork, spawn, mpiexec or slurm")
    if asked:
        return asked
    if why_not_to_fork_here() is None:
        return "fork"
    return "mpiexec" if _obstacle or os.name != "posix" else "spawn"


def why_not_to_fork_here() -> str | None:
    """Return what is known to stand in the way of forking ranks, or None."""
    if sys.platform != "linux" or not hasattr(os, "pidfd_open"):
        return "a process must be able to end with its parent, and to be seen ending: Linux >= 5.3"
    return _obstacle[0] if _obstacle else None


def remember_not_to_fork_here(why: str) -> None:
    """Start ranks the other way from now on, for this reason."""
    _obstacle[:] = [why]


def keep_warm() -> None:
    """Prepare in the background what the first cluster of this kernel will need."""
    with contextlib.suppress(StartError, OSError):  # whoever wants a cluster will hear of it
        if (way := way_here()) != "mpiexec":
            handle.keep_warm(way)
    threading.Thread(target=importlib.import_module, args=("ipyparallel",), daemon=True).start()


@dataclass(frozen=True)
class Forked:
    """Ranks forked from a warm process beside the kernel: the way of Linux with MPICH."""

    way: ClassVar[str] = "fork"
    most: ClassVar[int] = 64  # a rank takes about 80 MB before it imports anything

    def processes(
        self, n: int, threads: int, modules: tuple[str, ...] = (), network: Network | None = None
    ) -> Processes:
        """Return the processes of a cluster, not yet started."""
        return ForkedProcesses(n, threads, modules, network, self.way)


class Spawned(Forked):
    """Ranks that the same process starts afresh, sharing nothing: the way of macOS."""

    way: ClassVar[str] = "spawn"


class ForkedProcesses(Processes):
    """The controller and the ranks as children of a fork server."""

    starter = "the ranks"
    may_rest = True  # their hearts do not beat

    def __init__(
        self,
        n: int,
        threads: int,
        modules: tuple[str, ...],
        network: Network | None = None,
        way: str = "fork",
    ) -> None:
        place = tempfile.gettempdir()
        if os.path.expandvars(place) != place:  # as ipyparallel does
            raise StartError(
                f"ranks need a folder for temporary files without variables in its name; got "
                f"{place}: set TMPDIR to another"
            )
        if len(os.fsencode(place)) > LONGEST_PLACE:
            raise handle.CannotFork(f"{place} is too long for a socket's path")
        self._way = way
        self._server = handle.acquire(modules, way)
        folder = Path(place, f"{folders.PREFIX}{secrets.token_hex(6)}")
        # before it is there to be left behind; start() waits for the answer
        self._adopted = self._server.send("adopt", folder=str(folder))
        super().__init__(n, threads, folder)
        self._modules = modules
        self._network = Hosts(network, n, self.folder) if network else None
        self.host_names = self._network.names if self._network else []
        self._name = self.folder.name
        self._starts = 0
        self._released = False

    # -- start ----------------------------------------------------------------------------------

    def start(self) -> None:
        options = {"folder": str(self.folder), "cluster_id": self._name}
        asked = [
            self._adopted,
            self._server.require(*handle.CONTROLLER),
            self._server.fork(self._controller, "controller", 1, options, self.folder),
            *(self._network.begin(self._server) if self._network else ()),
            self._server.require(*handle.RANKS, *self._modules),
            self._fork_ranks(),
        ]
        import ipyparallel  # noqa: F401 (takes a while, and so does the other process)

        for number in asked:
            self._server.answer(number)
        if self._network:
            self._network.wait(self._server)

    def keep_folder(self) -> None:
        if not self.folder.exists():
            self._owned = folders.own(self.folder)
        super().keep_folder()

    def start_ranks(self) -> None:
        self.keep_folder()
        state.clear(self.state_dir)
        renew = not self._network and self._starts % RENEW_AFTER == 0
        renew |= not self._connection_file("engine").exists()  # the folder is a new one
        if renew or self.controller_exited() or self._network_exited():
            self._make_anew()
            self.start()
        else:
            self._server.answer(self._fork_ranks())

    def _make_anew(self) -> None:
        """Prepare another start of everything: the controller has ended, or who forked it."""
        self._close_client()
        if not self._server.alive:
            handle.release(self._server)
            self._server = handle.acquire(self._modules, self._way)
        self._adopted = self._server.send("adopt", folder=str(self.folder))
        self._kill(self._controller)
        self._server.forget(self._controller)
        shutil.rmtree(self.folder / "profile", ignore_errors=True)
        for path in self.folder.glob(f"{folders.SOCKETS}:*"):
            path.unlink()

    def _fork_ranks(self) -> int:
        self._server.forget(self._ranks)
        self._starts += 1
        options = {
            "family": self._ranks,
            "state_dir": str(self.state_dir),
            "threads": self.threads,
            "url_file": str(self._connection_file("engine")),
        }
        mapping = ""
        if self._network:
            options["network"], mapping = self._network.options(), self._network.mapping
        return self._server.fork(
            self._ranks, "engine", self.n, options, self.folder, self.threads, mapping=mapping
        )

    def connect(self) -> ipyparallel.Client:
        if self.client is None:
            import ipyparallel

            deadline = time.monotonic() + CONNECT_SECONDS
            while not self._server.ready(self._controller, LOOK_SECONDS):
                if self.controller_exited():
                    raise StartError("it ended at once")
                if time.monotonic() > deadline:
                    raise StartError(f"it was not ready within {CONNECT_SECONDS:g} s")
            told = json.loads(self._connection_file("client").read_text())
            self.client = ipyparallel.Client(connection_info=told)
        return self.client

    # -- state ----------------------------------------------------------------------------------

    @property
    def _controller(self) -> str:
        return f"{self._name}-controller"

    @property
    def _ranks(self) -> str:
        return f"{self._name}-{self._starts}"

    def registered(self) -> list[int]:
        engines = dict(self.connect()._engines)  # number to the name that the rank gave itself
        return [number for number, name in engines.items() if name.startswith(f"{self._ranks}-")]

    def ranks_exited(self) -> bool:
        gone = not self._starts or self._server.gone(self._ranks)
        return gone or self.controller_exited() or self._network_exited()

    def controller_exited(self) -> bool:
        return self._server.gone(self._controller)

    def _network_exited(self) -> bool:
        return self._network is not None and self._network.gone(self._server)

    def dead_rank(self) -> tuple[int | None, str]:
        first = self._server.first(self._ranks)
        if first is None and not self._server.alive:
            return None, "the process that forks them has ended"
        if first is None:
            if self._network_exited():
                return None, "a host of the network has ended"
            return None, "the controller has ended" if self.controller_exited() else ""
        ended = how(os.waitstatus_to_exitcode(first[1]))
        return first[0], self.where(first[0]) + ended

    def ranks_output(self) -> str:
        return self._read("engine")

    def controller_output(self) -> str:
        return self._read("controller")

    def _connection_file(self, whose: str) -> Path:
        name = f"ipcontroller-{self._name}-{whose}.json"
        return self.folder / "profile" / "security" / name

    def _read(self, program: str) -> str:
        try:
            return handle.output_file(self.folder, program).read_text(errors="replace")
        except OSError:
            return ""

    # -- end ------------------------------------------------------------------------------------

    def _close_client(self) -> None:
        client, self.client = self.client, None
        if client is not None:
            close(client)

    def kill_ranks(self) -> None:
        self._kill(self._ranks)

    def _kill(self, family: str) -> None:
        if not self._server.gone(family):
            self._server.call("kill", name=family)
            self._server.wait(family, STOP_SECONDS)

    def stop(self) -> None:
        if not self._released:
            self._released = True
            self._close_client()
            try:
                self._server.call("kill", name=self._controller)
                if self._network:
                    self._network.kill(self._server)
                self._kill(self._ranks)
                self._server.wait(self._controller, STOP_SECONDS)
                # in this order: a kernel that is killed in between leaves it to the other process
                shutil.rmtree(self.folder, ignore_errors=True)
                self._server.call("forget", folder=str(self.folder))
            except StartError:
                pass  # it has ended, and with it all that it had forked
            for family in (self._ranks, self._controller):
                self._server.forget(family)
            handle.release(self._server)
        shutil.rmtree(self.folder, ignore_errors=True)
        self._owned.close()
        folders.sweep()
