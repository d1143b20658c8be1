"""The kernel's side of the processes that fork: start one, ask it, share it, end it."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from helpers.cluster.errors import StartError
from helpers.cluster.start import forkserver
from helpers.cluster.start.forkserver.family import name_of, unlink
from helpers.machine.mpi import THREAD_VARIABLES

ROOM = 1 << 20  # bytes of requests that need not wait; the largest part is the environment
ANSWER_SECONDS = 60.0  # an import may take long on a slow disk
END_SECONDS = 5.0
# what each kind of process needs: whoever is forked first waits for its own only
CONTROLLER = ("helpers.cluster.start.controller",)
RANKS = ("helpers.cluster.start.forkserver.warm",)

_servers: list[ForkServer] = []
_servers_lock = threading.Lock()


class CannotFork(StartError):  # noqa: N818 (a fact, and the way around it is known)
    """Ranks cannot be forked here: another way of starting them must be taken."""


class ForkServer:
    """A process that forks for this kernel, which shares it: see :func:`acquire`."""

    def __init__(self, way: str = "fork") -> None:
        ours, theirs = socket.socketpair()
        self.way = way
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, ROOM)
        self.modules: set[str] = set()  # that it has imported, or soon will
        self.users = 0
        self.kept = False  # also while nobody uses it
        self.spoiled = False  # it has imported what no fork can share
        self._socket = ours
        self._lock = threading.RLock()
        self._number = 0
        self._forks = 0
        self._answers: dict[int, dict] = {}
        self._imports: dict[int, list[str]] = {}  # that each request not yet answered is for
        self._ready: set[str] = set()
        self._gone: dict[str, tuple[int, int] | None] = {}
        one_thread = dict.fromkeys(THREAD_VARIABLES, "1")  # only the one that forks lives on
        file = str(theirs.fileno())
        # -P: a reader's random.py beside the notebook is not what this process imports
        command = [sys.executable, "-P", "-m", "helpers.cluster.start.forkserver.server", file, way]
        self.process = subprocess.Popen(
            command,
            env={**_environment(), **one_thread},
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            cwd=_here(),
            start_new_session=True,  # an interrupt of the kernel's process group is not for it
        )
        theirs.close()

    @property
    def alive(self) -> bool:
        """Whether the process still serves."""
        with self._lock:
            self._hear(0)
            return self._socket.fileno() >= 0

    def call(self, do: str, **request: Any) -> dict:
        """Ask for one of the server's methods ``do_...``, and wait for the answer."""
        with self._lock:
            return self.answer(self.send(do, **request))

    def require(self, *modules: str) -> int:
        """Have modules imported; the answer to the request returned tells whether they were."""
        wanted = modules if self.way == "fork" else ()  # else nobody would share them
        missing = [module for module in wanted if module not in self.modules]
        self.modules.update(missing)
        number = self.send("preload", modules=missing)
        self._imports[number] = missing
        return number

    def send(self, do: str, **request: Any) -> int:
        """Ask for something; return the request's number, for :meth:`answer`."""
        with self._lock:
            self._number += 1
            try:
                forkserver.send(self._socket, {"number": self._number, "do": do, **request})
            except OSError as error:
                self._close()
                raise StartError(f"the process that forks the ranks has ended: {error}") from None
            return self._number

    def fork(
        self,
        name: str,
        program: str,
        size: int,
        options: dict[str, Any],
        folder: Path,
        threads: int | None = None,
        mapping: str = "",
    ) -> int:
        """Ask for `size` processes in this process's environment; return the number of the request.

        `program` is one of birth.PROGRAMS; `mapping` says which of them share a host, see
        KeyValueSpace.
        """
        self._forks += 1
        output = str(output_file(folder, program))
        found = forkserver.Surroundings(_environment(), _here(), output, threads)
        return self.send(
            "fork",
            name=name,
            program=program,
            size=size,
            options=options,
            surroundings=asdict(found),
            mapping=mapping,
        )

    def answer(self, number: int) -> dict:
        """Wait for the answer to a request; raise StartError if the server cannot give one."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            with self._lock:
                self._hear(0.1)
                if number in self._answers:
                    answer = self._answers.pop(number)
                    self._imports.pop(number, None)
                    if "cannot" in answer:
                        raise CannotFork(answer["cannot"])
                    if answer.get("error"):
                        self.spoiled |= answer.get("spoiled", False)
                        raise StartError(answer["error"])
                    return answer
                if self._socket.fileno() < 0:
                    names = ", ".join(map(repr, self._imports.get(number, ())))
                    why = f" while it imported {names}" if names else ""
                    raise StartError(f"the process that forks the ranks has ended{why}")
            if time.monotonic() > deadline:
                raise StartError(f"the process that forks is silent for {ANSWER_SECONDS:g} s")

    def ready(self, family: str, seconds: float = 0.0) -> bool:
        """Tell whether all members of a family are ready; wait at most `seconds` for news."""
        with self._lock:
            if family not in self._ready:
                self._hear(seconds)
            return family in self._ready

    def gone(self, family: str) -> bool:
        """Tell whether a family has ended, as it has if the process that forked it has."""
        with self._lock:
            self._hear(0)
            return family in self._gone or self._socket.fileno() < 0

    def first(self, family: str) -> tuple[int, int] | None:
        """Return the rank that failed first and its wait status; None if that is not known."""
        return self._gone.get(family)

    def wait(self, family: str, seconds: float) -> bool:
        """Wait at most `seconds` until a family has ended; tell whether it has."""
        deadline = time.monotonic() + seconds
        while not self.gone(family):
            with self._lock:
                self._hear(min(0.1, max(0.0, deadline - time.monotonic())))
            if time.monotonic() >= deadline:
                return self.gone(family)
        return True

    def forget(self, family: str) -> None:
        """Keep nothing of a family that has ended."""
        self._ready.discard(family)
        self._gone.pop(family, None)

    def end(self) -> None:
        """End the process, and with it all that it has forked."""
        with self._lock:
            self._close()
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.returncode < 0:  # its ranks may have been just starting
            for number in range(self._forks):
                unlink(name_of(self.process.pid, number))

    def _hear(self, seconds: float) -> None:
        """Take what has come, waiting for something at most so long."""
        while self._socket.fileno() >= 0:
            if not select.select([self._socket], [], [], seconds)[0]:
                return
            seconds = 0
            told = forkserver.receive(self._socket)
            if told is None:
                self._close()
                self.process.poll()
                return
            if "ready" in told:
                self._ready.add(told["ready"])
            elif "gone" in told:
                self._gone[told["gone"]] = told["first"] and tuple(told["first"])
            else:
                self._answers[told.pop("number")] = told

    def _close(self) -> None:
        self._socket.close()


def acquire(modules: Iterable[str] = (), way: str = "fork") -> ForkServer:
    """Find or start a process for ranks that share these modules; :func:`release` gives it back.

    A process that runs already will do if it has the modules, or if nobody uses it: what it then
    imports can harm nobody.
    """
    wanted = set(modules)
    with _servers_lock:
        for ended in [server for server in _servers if not server.alive]:
            _servers.remove(ended)
            ended.end()
        usable = [server for server in _servers if server.way == way and not server.spoiled]
        fitting = [server for server in usable if wanted <= server.modules]
        idle = [server for server in usable if not server.users]
        server = next(iter([*fitting, *idle]), None)
        if server is None:
            server = ForkServer(way)
            _servers.append(server)
        server.users += 1
        return server


def release(server: ForkServer) -> None:
    """Give back what :func:`acquire` returned; it ends when nobody needs it."""
    with _servers_lock:
        server.users -= 1
        if server.users or (server.kept and not server.spoiled):
            return
        if server in _servers:
            _servers.remove(server)
    server.end()


def keep_warm(way: str) -> None:
    """Have a process ready for the clusters to come, until this kernel ends."""
    server = acquire(way=way)
    server.kept = True
    server.require(*CONTROLLER, *RANKS)
    release(server)


def output_file(folder: Path, program: str) -> Path:
    """Return the file to which a set of processes writes."""
    return folder / f"{program}.log"


def _environment() -> dict[str, str]:
    """Return this process's environment, without what makes errors of libraries' warnings."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}


def _here() -> str:
    """Return this process's folder, or the user's own if somebody removed it."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return os.path.expanduser("~")
