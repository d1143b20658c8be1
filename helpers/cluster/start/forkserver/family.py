"""A set of processes forked together: the ranks of one world, or one process alone.

PMI-1 is the few questions that ranks of MPICH ask whoever started them, as text over a socket. A
rank that finds ``PMI_FD`` in its environment asks there: ``cmd=get_maxes``, and is answered
``cmd=maxes kvsname_max=256 ...``. The ranks leave each other words (``put``), meet (``barrier_in``)
and read them (``get``). The protocol is described in Balaji et al., "PMI: A Scalable Parallel
Process-Management Interface for Extreme-Scale Systems", EuroMPI 2010.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import traceback
from collections.abc import Callable
from pathlib import Path

from helpers.machine.guard import descendants

SHARED_MEMORY = Path("/dev/shm")
READY = b"cmd=ready\n"  # our own word: MPI_Init has returned


def words(line: str) -> dict[str, str]:
    """Take a line of ``name=value`` pairs apart.

    >>> words("cmd=put kvsname=example key=port value=17")
    {'cmd': 'put', 'kvsname': 'example', 'key': 'port', 'value': '17'}
    """
    return dict(part.split("=", 1) for part in line.split() if "=" in part)


class KeyValueSpace:
    r"""What one set of ranks is told, and what its ranks tell each other.

    `name` is new for each set: MPICH names its shared memory after it. `mapping` says which ranks
    share a host, as MPICH writes it; empty: all share one.

    >>> space = KeyValueSpace(2, "example")
    >>> space.answer(0, "cmd=put kvsname=example key=port value=17")
    {0: 'cmd=put_result rc=0 msg=success\n'}
    >>> space.answer(1, "cmd=barrier_in")
    {}
    >>> space.answer(0, "cmd=barrier_in")
    {1: 'cmd=barrier_out rc=0\n', 0: 'cmd=barrier_out rc=0\n'}
    >>> space.answer(1, "cmd=get kvsname=example key=port")
    {1: 'cmd=get_result rc=0 msg=success value=17\n'}
    """

    def __init__(self, size: int, name: str, mapping: str = "") -> None:
        self.size = size
        self.name = name
        self.ready: set[int] = set()  # the ranks in which MPI_Init has returned
        self.aborted: tuple[int, int] | None = None  # which rank asked for the end, its exit code
        # by default one host with all the ranks: they may share memory
        self._words = {"PMI_process_mapping": mapping or f"(vector,(0,1,{size}))"}
        self._arrived: list[int] = []
        self._fixed = {
            "init": "response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "get_maxes": "maxes kvsname_max=256 keylen_max=64 vallen_max=1024 rc=0",
            "get_universe_size": f"universe_size size={size} rc=0",
            "get_appnum": "appnum appnum=0 rc=0",
            "get_my_kvsname": f"my_kvsname kvsname={name} rc=0",
            "finalize": "finalize_ack rc=0",
        }

    def answer(self, rank: int, line: str) -> dict[int, str]:
        """Take one request; return who is answered what, nobody until all are at a barrier."""
        asked = words(line)
        command = asked.get("cmd", "")
        if command == "ready":
            self.ready.add(rank)
            return {}
        if command == "abort":  # MPI_Abort then waits to be killed, with the others
            self.aborted = self.aborted or (rank, int(asked.get("exitcode", 1)))
            return {}
        if command == "barrier_in":
            self._arrived.append(rank)
            if len(self._arrived) < self.size:
                return {}
            arrived, self._arrived = self._arrived, []
            return dict.fromkeys(arrived, "cmd=barrier_out rc=0\n")
        if command == "put":
            self._words[asked["key"]] = asked["value"]
            reply = "put_result rc=0 msg=success"
        elif command == "get" and asked["key"] in self._words:
            reply = f"get_result rc=0 msg=success value={self._words[asked['key']]}"
        elif command == "get":
            reply = "get_result rc=-1 msg=key_not_found value=unknown"
        elif command in self._fixed:
            reply = self._fixed[command]
        else:
            raise ValueError(f"PMI-1 expects one of {sorted(self._fixed)}, put, get; got {line!r}")
        return {rank: f"cmd={reply}\n"}

    def unlink(self) -> None:
        """Remove MPICH's file in shared memory; ranks that have it keep it until they end."""
        unlink(self.name)


def name_of(server: int, number: int) -> str:
    """Return the name of a set of ranks, whose hash MPICH's files in shared memory bear."""
    return f"ranks-{server}-{number}"


def unlink(name: str) -> None:
    """Remove MPICH's file in shared memory for one set of ranks."""
    for path in SHARED_MEMORY.glob(f"mpich_shm_{fnv1a(name):x}_*"):
        path.unlink(missing_ok=True)


def fnv1a(text: str) -> int:
    """Hash a text as MPICH does to name its shared memory: Fowler-Noll-Vo 1a, 32 bits.

    >>> f"{fnv1a('ranks-26411-1859672534561'):x}"
    '29c0c532'
    """
    value = 2166136261
    for byte in text.encode():
        value = (value ^ byte) * 16777619 % 2**32
    return value


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
