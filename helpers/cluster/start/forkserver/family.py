"""A set of processes forked together: the ranks of one world, or one process alone."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import traceback
from collections.abc import Callable

from helpers.cluster.start.forkserver.pmi import SHARED_MEMORY, KeyValueSpace, fnv1a, name_of
from helpers.machine.guard import descendants

_numbers = itertools.count()


class Family:
    """The processes of one set, in rank order; if it is `inseparable`, all end as one does."""

    def __init__(self, name: str, size: int, inseparable: bool = True, mapping: str = "") -> None:
        self.name = name
        self.size = size
        self.inseparable = inseparable
        self.space = KeyValueSpace(size, _new_name(), mapping)
        self.pids: dict[int, int] = {}  # of each member that lives
        self.ends: dict[int, socket.socket] = {}  # on which a member asks
        self.first: tuple[int, int] | None = None  # who failed first, and its wait status
        self._unread: dict[int, bytes] = {}
        self._lives: list[int] = []  # pipes: members that were not forked end when these are closed

    @property
    def born(self) -> bool:
        """Whether every member has said that it is ready."""
        return len(self.space.ready) == self.size

    def fork(self, begin: Callable[[int, socket.socket], None]) -> int | None:
        """Fork the members; `begin` gets a rank and its socket. Return the rank in a child."""
        for rank in range(self.size):
            ours, theirs = socket.socketpair()
            pid = os.fork()
            if pid == 0:
                ours.close()
                for end in self.ends.values():
                    end.close()
                try:
                    begin(rank, theirs)
                except BaseException:  # it must not go on as its parent
                    traceback.print_exc()
                    os._exit(1)
                return rank
            theirs.close()
            self._add(rank, pid, ours)
        return None

    def spawn(
        self, command: Callable[..., list[str]], environment: dict[str, str], output: str
    ) -> None:
        """Start the members afresh by `command`, given the rank, its socket and a pipe of life."""
        writing = (os.POSIX_SPAWN_OPEN, 1, output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        actions = [writing, (os.POSIX_SPAWN_DUP2, 1, 2)]
        for rank in range(self.size):
            ours, theirs = socket.socketpair()
            life, held = os.pipe()
            self._lives.append(held)
            for file in (theirs.fileno(), life):
                os.set_inheritable(file, True)
            try:
                line = command(rank=rank, end=theirs.fileno(), life=life)
                pid = os.posix_spawn(line[0], line, environment, file_actions=actions)
            finally:
                theirs.close()
                os.close(life)
            self._add(rank, pid, ours)

    def _add(self, rank: int, pid: int, end: socket.socket) -> None:
        end.setblocking(False)
        self.pids[rank], self.ends[rank], self._unread[rank] = pid, end, b""

    def read(self, rank: int) -> bool:
        """Take what a member says, and answer; return False once it will say no more."""
        try:
            data = self.ends[rank].recv(65536)
        except BlockingIOError:
            return True
        except OSError:
            data = b""
        *lines, self._unread[rank] = (self._unread[rank] + data).split(b"\n")
        for line in lines:
            try:
                answers = self.space.answer(rank, line.decode())
            except (ValueError, KeyError) as error:
                print(f"{self.name}: rank {rank}: {error!r}", flush=True)
                self.kill()
                return False
            for other, answer in answers.items():
                with contextlib.suppress(OSError, KeyError):  # it has ended
                    self.ends[other].sendall(answer.encode())
        if self.space.aborted and self.first is None:
            number, code = self.space.aborted
            self.first = number, (code & 0xFF or 1) << 8  # as ``os.waitpid`` would give it
            self.kill()
        return bool(data)

    def ended(self, rank: int, status: int) -> None:
        """Note that a member ended with this wait status; if it failed, the others go too."""
        del self.pids[rank]
        if self.first is None and (status != 0 or self.inseparable):
            self.first = rank, status
            self.kill()

    def kill(self) -> None:
        """SIGKILL all members with all that they have started."""
        for pid in (*self.pids.values(), *descendants(*self.pids.values())):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """Let go of what the family used; its members are gone."""
        for end in self.ends.values():
            end.close()
        self.ends.clear()
        while self._lives:
            os.close(self._lives.pop())
        self.space.unlink()


def _new_name() -> str:
    """Return a name that no other set has, not even one of which shared memory is left."""
    while True:
        name = name_of(os.getpid(), next(_numbers))
        if not list(SHARED_MEMORY.glob(f"mpich_shm_{fnv1a(name):x}_*")):
            return name
