"""Asynchronous without a handshake: the server's receive is a function that someone else wrote."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from helpers.data_parallel.history import History
from helpers.data_parallel.replica import Replica
from helpers.data_parallel.scheme import Ended, Scheme
from helpers.data_parallel.schemes.protocol import GRADIENT, PARAMETERS

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

END = 15  # tag of the server's answer when the training is over


class Unannounced(Scheme):
    """Workers push their layers without asking; rank 0 takes them by a function of yours.

    No hello: nobody can be refused, and nobody who falls silent is given up. ``receive(comm,
    layers)`` fills the server's arrays with the layers of one worker's gradient and returns that
    worker's rank.
    """

    name = "asynchronous, no handshake"
    server = 0
    synchronous = False

    def __init__(self, comm: Intracomm, receive: Callable[[Intracomm, list[np.ndarray]], int]):
        super().__init__(comm.Dup())  # a gradient that nobody took must not reach another run
        self.receive = receive
        self._fetched = dict.fromkeys(self.workers, 0)  # updates behind each worker's parameters

    def begin(self, replica: Replica) -> None:
        """All begin with rank 0's parameters: nobody needs to fetch any."""
        if replica.stop.loss is not None:
            raise ValueError(
                f"{self.name}: the server is told no loss to stop at; got {replica.stop}"
            )
        super().begin(replica)
        self.gradients = replica.flat.layers(replica.flat.gradients)
        self.values = replica.flat.values.numpy()

    def after_backward(self, replica: Replica, step: int) -> None:
        """A worker pushes; the server takes whatever its function makes of that."""
        if not self.serves:
            for layer in self.gradients:
                self.comm.Send(layer, 0, GRADIENT)
            return
        worker = self.receive(self.comm, self.gradients)
        if worker not in self.workers:
            replica.history.report.append(f"expected the rank of a worker; got {worker!r}")
            raise Ended("no worker's rank")
        self.worker, self.staleness = worker, step - self._fetched[worker]

    def after_step(self, replica: Replica, step: int) -> None:
        """The server answers that worker; a worker takes its new parameters, or ends."""
        from mpi4py import MPI

        if self.serves:
            self._fetched[self.worker] = step + 1
            self.comm.Send(self.values, self.worker, PARAMETERS)
            return
        status = MPI.Status()
        self.comm.Recv(self.values, 0, MPI.ANY_TAG, status)
        if status.Get_tag() == END:
            raise Ended("the server stopped")

    def end(self, replica: Replica) -> History:
        """Each worker has one more gradient under way: take it, and say that this was the last."""
        history = replica.history
        if self.serves:
            for worker in self.workers:
                for layer in self.gradients:
                    self.comm.Recv(layer, worker, GRADIENT)
                self.comm.Send(self.values, worker, END)
            history.gradients = history.updates
            history.weights = self.values.copy()
        history = self.comm.bcast(history, root=0)
        self.comm.Free()
        return history
