"""Synchronous SGD whose server does not wait for the last (Chen et al., 2016, backup workers).

W = N + b workers compute gradients of the same step; the server takes the first N that come, makes
the update, and drops what comes later: a message says to which step its gradient belongs. A worker
gets the newest parameters as soon as its own gradient has been taken or dropped.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from helpers.data_parallel.history import History
from helpers.data_parallel.replica import Replica
from helpers.data_parallel.scheme import Ended, Scheme
from helpers.data_parallel.schemes.protocol import (
    GRADIENT,
    HELLO,
    NAP,
    PARAMETERS,
    READY,
    Hello,
    Ready,
    SilenceError,
    next_hello,
    receive,
    wait,
)

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


class Backup(Scheme):
    """Rank 0 makes an update with the mean of the first N of W gradients.

    N = W − b, with b ``backups`` from 0 to W − 1. ``seconds(step)`` is how long this rank's
    gradient is to take as a whole, a straggler drawn on purpose: ranks sleep until then. With
    ``abandon`` a late worker is told at once and lets go of its gradient; otherwise what it brings
    is dropped. Who is silent for ``patience`` seconds raises SilenceError.

    On the server there are, for each update, ``taken``, whose gradients were in it, and
    ``arrivals``, the seconds from the step's beginning until these were there; ``dropped`` counts
    gradients that came too late.
    """

    server = 0
    synchronous = False

    def __init__(
        self,
        comm: Intracomm,
        backups: int = 0,
        seconds: Callable[[int], float] | None = None,
        abandon: bool = False,
        patience: float = 20.0,
    ):
        super().__init__(comm)
        if not 0 <= backups < len(self.workers):
            raise ValueError(
                f"Backup expects 0 to {len(self.workers) - 1} backups of {len(self.workers)} "
                f"workers; got {backups}"
            )
        self.needed, self.abandon, self.patience = len(self.workers) - backups, abandon, patience
        self.name = f"backup, {self.needed} of {len(self.workers)}"
        self.seconds, self._step = seconds, 0
        self.taken: list[list[int]] = []
        self.dropped = 0
        self.arrivals: list[dict[int, float]] = []

    def begin(self, replica: Replica) -> None:
        """Every worker asks for parameters by itself."""
        self.share_untrained(replica)
        self._waiting = set(self.workers)
        self._sends: list = []  # on their way, each with the array that it reads
        self._arriving = np.empty_like(replica.flat.gradients.numpy())

    def before_backward(self, replica: Replica, step: int) -> None:
        """The server answers all who wait; a worker takes the parameters of the step that is on."""
        if self.serves:
            self._began = time.perf_counter()
            self._step, self._current = step, replica.flat.values.numpy().copy()
            self._sends = [(request, kept) for request, kept in self._sends if not request.Test()]
            for worker in self.workers if self.abandon else sorted(self._waiting):
                self._answer(worker)
            self._waiting.clear()
        else:
            self._fetch(replica)
            self._began = time.perf_counter()

    def _fetch(self, replica: Replica) -> None:
        """Take parameters, the newest that have been sent; a stop comes in place of any."""
        first = True
        while first or (self.abandon and self.comm.iprobe(source=0, tag=READY)):
            first = False
            ready = wait(
                self.comm.irecv(source=0, tag=READY), self.patience, "the server did not answer"
            )
            if not ready.go:
                raise Ended(ready.reason)
            receive(self.comm, replica.flat.values.numpy(), 0, PARAMETERS, self.patience)
            self._step = ready.version

    def after_backward(self, replica: Replica, step: int) -> None:
        """A worker sends its gradient and its step's number; the server takes the first N."""
        if self.serves:
            self._collect(replica)
            return
        if self._sleep():  # the next step has begun elsewhere
            return
        hello = Hello("gradient", version=self._step, loss=replica.last_loss,
                      batch=replica.history.batch)  # fmt: skip
        self.comm.send(hello, 0, HELLO)
        sent = self.comm.Isend(replica.flat.gradients.numpy(), 0, GRADIENT)
        wait(sent, self.patience, "the server did not take the gradient")

    def _sleep(self) -> bool:
        """Sleep until this gradient's time is over; tell whether it was given up before."""
        end = self._began + (0.0 if self.seconds is None else self.seconds(self._step))
        while not (given_up := self.abandon and self.comm.iprobe(source=0, tag=READY)):
            left = end - time.perf_counter()
            if left <= 0:
                break
            time.sleep(min(left, 1e-3 if self.abandon else left))
        return given_up

    def _collect(self, replica: Replica) -> None:
        gradients = replica.flat.gradients.numpy()
        losses: list[float] = []
        arrived: dict[int, float] = {}
        while len(arrived) < self.needed:
            called = next_hello(self.comm, self.patience)
            if called is None:
                raise SilenceError(f"no gradient came within {self.patience:g} s")
            worker, hello = called
            receive(self.comm, self._arriving, worker, GRADIENT, self.patience)
            if hello.version < self._step:  # too late
                self.dropped += 1
                if not self.abandon:
                    self._answer(worker)
                continue
            gradients += self._arriving / self.needed
            losses.append(hello.loss)
            arrived[worker] = time.perf_counter() - self._began
            self._waiting.add(worker)
            replica.history.batch = hello.batch
        replica.last_loss = float(np.mean(losses))
        self.taken.append(sorted(arrived))
        self.arrivals.append(arrived)

    def _answer(self, worker: int) -> None:
        """Send the current parameters; who is busy takes them later, and nobody waits for it."""
        self.comm.send(Ready(True, version=self._step), worker, READY)
        sent = self.comm.Isend(self._current, worker, PARAMETERS)
        self._sends.append((sent, self._current))

    def end(self, replica: Replica) -> History:
        """Dismiss every worker, and take what still comes too late."""
        history = replica.history
        if self.serves:
            for worker in self.workers:
                self.comm.send(Ready(False, "done"), worker, READY)
            history.gradients = history.updates * self.needed
            history.weights = replica.flat.values.numpy().copy()
        everybody = self.comm.Ibarrier()  # a worker arrives when it has nothing more to send
        while not everybody.Test():
            if self.serves and (called := next_hello(self.comm, NAP)):
                receive(self.comm, self._arriving, called[0], GRADIENT, self.patience)
                self.dropped += 1
            time.sleep(NAP)
        return self.comm.bcast(history, root=0)
