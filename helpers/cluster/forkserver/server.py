"""The loop of the process that forks: one thread, woken by the kernel, a rank, or a rank's end."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import shutil
import signal
import socket
from collections.abc import Callable
from typing import Any

from helpers.cluster.forkserver import birth, programs
from helpers.cluster.forkserver.family import Family
from helpers.cluster.forkserver.handle import LARGEST_MESSAGE
from helpers.cluster.forkserver.preload import preload, why_not_to_fork
from helpers.machine.guard import descendants
from helpers.machine.prctl import PR_SET_CHILD_SUBREAPER, prctl
from helpers.machine.shared_memory import why_not_enough

Program = Callable[[], None]


class Server:
    """Serves one kernel over ``control``, until the kernel closes its end or ends.

    Each message is a JSON object. The kernel's ``{"do": ...}`` are the methods ``do_...``; each is
    answered once, under the same ``"number"``. ``{"ready": name}`` and ``{"gone": name, ...}`` come
    unasked.

    Parameters
    ----------
    control : socket.socket
        Of type ``SOCK_SEQPACKET``.
    """

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._families: dict[str, Family] = {}
        self._folders: set[str] = set()  # to be removed if the kernel cannot
        self._announced: set[str] = set()
        self._pid = os.getpid()
        # the socket stays open while a child that the kernel has forked lives; the kernel may not
        self._kernel = os.pidfd_open(os.getppid())
        self._woken, waker = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(waker, False)
        self._waker = waker
        prctl(PR_SET_CHILD_SUBREAPER, 1)  # what a rank leaves running comes to us
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # it need only wake the loop
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the reader's interrupt is for the kernel

    def serve(self) -> Program | None:
        """Do what the kernel asks.

        Returns
        -------
        callable or None
            In a child what it shall run; None in this process, when the kernel is gone.
        """
        while True:
            for file in self._wait():
                if file in (self._control.fileno(), self._kernel):
                    message = self._receive() if file != self._kernel else b""
                    if not message:
                        self._end()
                        return None
                    program = self._obey(json.loads(message))
                    if program is not None:
                        return program
                elif file == self._woken:
                    os.read(self._woken, 4096)
                else:
                    self._listen(file)
            self._reap()

    def do_preload(self, modules: list[str]) -> dict:
        """Import modules.

        Parameters
        ----------
        modules : list of str
            Their names.

        Returns
        -------
        dict
            ``error``: why one of them cannot be shared, or None; ``spoiled``: whether there is one.
        """
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
        """Fork a family.

        Parameters
        ----------
        name : str
            By which it will be known.
        program : str
            What its members run, one of :mod:`helpers.cluster.forkserver.programs`.
        size : int
            How many they are.
        options : dict
            The program's.
        surroundings : dict
            The fields of Surroundings.
        mapping : str
            Which ranks share a host, see KeyValueSpace.

        Returns
        -------
        dict or callable
            ``pids`` in rank order; in a child its program.
        """
        why = why_not_to_fork()
        if why is not None:
            return {"error": f"ranks cannot be forked: {why}", "spoiled": True}
        if program in programs.NEED_MPI and (library := _other_library()):
            return {"cannot": f"forked ranks need MPICH, and mpi4py uses {library}"}
        if program in programs.NEED_MPI and (why := why_not_enough(size)):
            return {"error": why}
        family = self._families[name] = Family(name, size, programs.INSEPARABLE[program], mapping)
        chosen: list[Program] = []

        def begin(rank: int, end: socket.socket) -> None:
            self._let_go()
            birth.be_born(self._pid, birth.Surroundings(**surroundings))
            run, place = programs.PROGRAMS[program], programs.Place(rank, size, end.detach())
            chosen.append(lambda: run(place, **options))

        try:
            if family.fork(begin) is not None:
                return chosen[0]
        except OSError as error:
            family.kill()
            return {"error": f"the system cannot fork {size} processes more: {error}"}
        return {"pids": [family.pids[rank] for rank in range(size)]}

    def do_kill(self, name: str) -> dict:
        """Kill a family; ``gone`` follows when its last member is.

        Parameters
        ----------
        name : str
            Which.

        Returns
        -------
        dict
            Nothing.
        """
        if name in self._families:
            self._families[name].kill()
        return {}

    def do_adopt(self, folder: str) -> dict:
        """Remove a folder if the kernel is gone.

        Parameters
        ----------
        folder : str
            Which; it may still have to be made.

        Returns
        -------
        dict
            Nothing.
        """
        self._folders.add(folder)
        return {}

    def do_forget(self, folder: str) -> dict:
        """Leave a folder to the kernel.

        Parameters
        ----------
        folder : str
            Which.

        Returns
        -------
        dict
            Nothing.
        """
        self._folders.discard(folder)
        return {}

    # -- inside ---------------------------------------------------------------------------------

    def _wait(self) -> list[int]:
        poll = select.poll()
        own = (self._control.fileno(), self._kernel, self._woken)
        for file in (*own, *self._listeners()):
            poll.register(file, select.POLLIN)
        return [file for file, _ in poll.poll()]

    def _receive(self) -> bytes:
        try:
            return self._control.recv(LARGEST_MESSAGE, socket.MSG_DONTWAIT)
        except OSError:
            return b""

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
            self._control.sendall(json.dumps(message).encode())

    def _reap(self) -> None:
        """Bury the children that have ended, and whom they leave behind."""
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None:
                return
            where = [
                (family, rank)
                for family in self._families.values()
                for rank, pid in family.pids.items()
                if pid == found.si_pid
            ]
            if where:  # while it is a zombie its id, and so its session's, is nobody else's
                _kill_session(found.si_pid)
            _, status = os.waitpid(found.si_pid, 0)
            for family, rank in where:
                family.ended(rank, status)
                if not family.pids:
                    family.close()
                    del self._families[family.name]
                    self._announced.discard(family.name)
                    self._tell({"gone": family.name, "first": family.first})

    def _let_go(self) -> None:
        """In a child: close what is the parent's."""
        self._control.close()
        for file in (self._kernel, self._woken, self._waker):
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
        while message := self._receive():  # what it had asked for last
            self._folders.add(json.loads(message).get("folder", ""))
        for folder in filter(None, self._folders):
            shutil.rmtree(folder, ignore_errors=True)


def _other_library() -> str | None:
    """Return the name of mpi4py's MPI, None for MPICH."""
    from mpi4py import MPI

    name, version = MPI.get_vendor()
    return None if name == "MPICH" else f"{name} {'.'.join(map(str, version))}"


def _kill_session(leader: int) -> None:
    """SIGKILL the processes of a session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
