"""The loop of the process that forks: one thread, woken by the kernel, a rank, or a rank's end.

``python -m helpers.cluster.start.forkserver.server FD WAY`` serves the kernel at the other end.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from helpers.cluster.start import folders, forkserver
from helpers.cluster.start.forkserver import birth
from helpers.cluster.start.forkserver.family import Family
from helpers.cluster.start.forkserver.preload import other_library, preload, why_not_to_fork
from helpers.machine.guard import PR_SET_CHILD_SUBREAPER, descendants, prctl
from helpers.machine.mpi import THREAD_VARIABLES
from helpers.machine.shared_memory import why_not_enough

LOOK_MS = 500  # where the kernel's end is not told
Program = Callable[[], None]


class Server:
    """Serves one kernel over ``control``, until the kernel closes its end or ends.

    Each message is a JSON object. The kernel's ``{"do": ...}`` are the methods ``do_...``; each is
    answered once, under the same ``"number"``. ``{"ready": name}`` and ``{"gone": name, ...}`` come
    unasked.
    """

    def __init__(self, control: socket.socket, way: str = "fork") -> None:
        self._control = control
        self._way = way
        self._families: dict[str, Family] = {}
        self._folders: set[str] = set()  # to be removed if the kernel cannot
        self._announced: set[str] = set()
        self._pid = os.getpid()
        # the socket stays open while a child that the kernel has forked lives; the kernel may not
        self._parent = os.getppid()
        self._kernel = os.pidfd_open(self._parent) if hasattr(os, "pidfd_open") else None
        self._woken, waker = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(waker, False)
        self._waker = waker
        if sys.platform == "linux":
            prctl(PR_SET_CHILD_SUBREAPER, 1)  # what a rank leaves running comes to us
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # it need only wake the loop
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the reader's interrupt is for the kernel

    def serve(self) -> Program | None:
        """Do what the kernel asks until it is gone; in a child, return what to run."""
        while True:
            files = self._wait()
            if not files and os.getppid() != self._parent:  # nothing happens: is the kernel there?
                self._end()
                return None
            for file in files:
                if file in (self._control.fileno(), self._kernel):
                    message = self._receive() if file != self._kernel else None
                    if message is None:
                        self._end()
                        return None
                    program = self._obey(message)
                    if program is not None:
                        return program
                elif file == self._woken:
                    os.read(self._woken, 4096)
                else:
                    self._listen(file)
            self._reap()

    def do_preload(self, modules: list[str]) -> dict:
        """Import modules; tell why one of them cannot be shared, if one cannot."""
        gc.disable()  # an import leaves no garbage worth the search
        why = preload(modules)
        gc.enable()
        gc.freeze()  # the collector of a child leaves our pages shared
        return {"error": why, "spoiled": why is not None}

    def do_fork(
        self,
        name: str,
        program: str,
        size: int,
        options: dict[str, Any],
        surroundings: dict[str, Any],
        mapping: str = "",
    ) -> dict | Program:
        """Fork a family; in a child, return its program."""
        why = why_not_to_fork() if self._way == "fork" else None
        if why is not None:
            return {"error": f"ranks cannot be forked: {why}", "spoiled": True}
        if program in birth.NEED_MPI and (library := other_library()):
            return {"cannot": f"forked ranks need MPICH, and mpi4py uses {library}"}
        if program in birth.NEED_MPI and (why := why_not_enough(size)):
            return {"error": why}
        family = self._families[name] = Family(name, size, birth.INSEPARABLE[program], mapping)
        found = forkserver.Surroundings(**surroundings)
        if self._way == "spawn":
            return self._spawn(family, program, options, found)
        chosen: list[Program] = []

        def begin(rank: int, end: socket.socket) -> None:
            self._let_go()
            birth.be_born(self._pid, found)
            run, place = birth.PROGRAMS[program], birth.Place(rank, size, end.detach())
            chosen.append(lambda: run(place, **options))

        try:
            if family.fork(begin) is not None:
                return chosen[0]
        except OSError as error:
            return self._too_many(family, error)
        return {}

    def _spawn(
        self, family: Family, program: str, options: dict, found: forkserver.Surroundings
    ) -> dict:
        environment = dict(found.environment)
        if found.threads is not None:  # before any library looks
            environment |= dict.fromkeys(THREAD_VARIABLES, str(found.threads))
        told = {"program": program, "options": options, "size": family.size}
        try:
            family.spawn(
                partial(birth.command, self._pid, found, **told), environment, found.output
            )
        except OSError as error:
            return self._too_many(family, error)
        return {}

    def _too_many(self, family: Family, error: OSError) -> dict:
        family.kill()
        return {"error": f"the system cannot fork {family.size} processes more: {error}"}

    def do_kill(self, name: str) -> dict:
        """Kill a family; ``gone`` follows when its last member is."""
        if name in self._families:
            self._families[name].kill()
        return {}

    def do_adopt(self, folder: str) -> dict:
        """Remove a folder, which may still have to be made, if the kernel is gone."""
        self._folders.add(folder)
        return {}

    def do_forget(self, folder: str) -> dict:
        """Leave a folder to the kernel."""
        self._folders.discard(folder)
        return {}

    # -- inside ---------------------------------------------------------------------------------

    def _wait(self) -> list[int]:
        poll = select.poll()
        own = (self._control.fileno(), self._woken)
        for file in (*own, *self._listeners(), *([] if self._kernel is None else [self._kernel])):
            poll.register(file, select.POLLIN)
        return [file for file, _ in poll.poll(LOOK_MS if self._kernel is None else None)]

    def _receive(self) -> dict | None:
        if not select.select([self._control], [], [], 0)[0]:
            return None
        return forkserver.receive(self._control)

    def _listeners(self) -> dict[int, tuple[Family, int]]:
        return {
            end.fileno(): (family, rank)
            for family in self._families.values()
            for rank, end in family.ends.items()
        }

    def _listen(self, file: int) -> None:
        family, rank = self._listeners()[file]
        if not family.read(rank):
            family.ends.pop(rank).close()
        if family.born and family.name not in self._announced:
            self._announced.add(family.name)
            family.space.unlink()
            self._tell({"ready": family.name})

    def _obey(self, request: dict) -> Program | None:
        number, do = request.pop("number"), request.pop("do")
        answer = getattr(self, f"do_{do}")(**request)
        if callable(answer):
            return answer
        self._tell({"number": number, **answer})
        return None

    def _tell(self, message: dict) -> None:
        with contextlib.suppress(OSError):  # the kernel is gone: the loop hears of it
            forkserver.send(self._control, message)

    def _reap(self) -> None:
        """Bury the children that have ended, and whom they leave behind."""
        while (buried := _bury_one(lambda pid: bool(self._where(pid)))) is not None:
            pid, status = buried
            for family, rank in self._where(pid):
                family.ended(rank, status)
                if not family.pids:
                    family.close()
                    del self._families[family.name]
                    self._announced.discard(family.name)
                    self._tell({"gone": family.name, "first": family.first})

    def _where(self, pid: int) -> list[tuple[Family, int]]:
        return [
            (family, rank)
            for family in self._families.values()
            for rank, one in family.pids.items()
            if one == pid
        ]

    def _let_go(self) -> None:
        """In a child: close what is the parent's."""
        self._control.close()
        for file in filter(None, (self._kernel, self._woken, self._waker)):
            os.close(file)
        for family in self._families.values():
            for end in family.ends.values():
                end.close()

    def _end(self) -> None:
        """End everything: the kernel is gone."""
        signal.set_wakeup_fd(-1)
        while below := descendants(os.getpid()):  # those who have lost their parents too
            for pid in below:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-1, 0)
        for family in self._families.values():
            family.close()
        self._control.settimeout(LOOK_MS / 1e3)  # it may have ended in the middle of a message
        while message := self._receive():  # what it had asked for last
            self._folders.add(message.get("folder", ""))
        for folder in filter(None, self._folders):
            folders.remove(Path(folder))


def _bury_one(is_leader: Callable[[int], bool]) -> tuple[int, int] | None:
    """Bury a child that has ended, and a session that it led; return its id and wait status."""
    pid, status = 0, 0
    try:
        if hasattr(os, "waitid"):
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            pid = 0 if found is None else found.si_pid
        else:  # macOS, before Python 3.13
            pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    if not pid:
        return None
    if is_leader(pid):  # while it is a zombie its id, and so its session's, is nobody else's
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
    return os.waitpid(pid, 0) if hasattr(os, "waitid") else (pid, status)


def main(file: int, way: str) -> None:
    """Serve the kernel over a socket until it is gone; in a forked child, run its program."""
    import mpi4py

    mpi4py.rc.initialize = False  # each rank does so itself
    mpi4py.rc.finalize = False
    sys.path.append("")  # the last place to look for a module to import beforehand
    program = Server(socket.socket(fileno=file), way).serve()
    if program is not None:
        program()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
