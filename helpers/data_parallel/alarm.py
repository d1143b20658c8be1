"""Ranks that train in step learn that one of them has failed: they would wait for it for ever."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING

from helpers.machine.shared_memory import unlink_own

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

LOOK = 0.1  # seconds between two looks for bad news
GRACE = 1.5  # seconds in which a rank that computes reaches its next step, and raises by itself


class Alarm:
    """Listens, while a training lasts, for a rank that fails (collective).

    A rank that computes raises in its next step. One that waits inside MPI, where no exception
    reaches it, says what happened and ends the job. Ranks of a notebook's cluster need none of
    this: the cluster tells whose error it was, and frees the others.
    """

    def __init__(self, comm: Intracomm):
        from mpi4py import MPI

        self._over = threading.Event()
        self._heard = ""
        watched = "helpers.cluster.rank.rankside" in sys.modules
        threads = MPI.Query_thread() == MPI.THREAD_MULTIPLE
        self._comm = comm.Dup() if comm.Get_size() > 1 and threads and not watched else None
        if self._comm is not None:
            self._thread = threading.Thread(target=self._listen, name="alarm", daemon=True)
            self._thread.start()

    def _listen(self) -> None:
        assert self._comm is not None, "else nobody listens"
        while not self._over.wait(LOOK):
            if self._comm.Iprobe():
                self._heard = self._comm.recv()
                if not self._over.wait(GRACE):
                    rank = self._comm.Get_rank()
                    print(f"rank {rank}: {self._heard}", file=sys.stderr, flush=True)
                    unlink_own()
                    self._comm.Abort(1)
                return

    def check(self) -> None:
        """Raise RuntimeError if another rank has failed."""
        if self._heard:
            raise RuntimeError(self._heard)

    def sound(self, error: BaseException) -> None:
        """Tell the others that this rank fails, unless one of them has failed before."""
        self._over.set()
        if self._comm is not None and not self._heard:
            rank = self._comm.Get_rank()
            said = f"rank {rank} left this training with {type(error).__name__}: {error}"
            for other in range(self._comm.Get_size()):
                if other != rank:
                    self._comm.isend(said, other)

    def end(self) -> None:
        """Stop listening: the training is over, on every rank."""
        self._over.set()
        if self._comm is not None:
            self._thread.join()
            self._comm.Free()
