"""Synchronous SGD with a server: workers send gradients, the server averages and answers.

Rank 0 waits for the gradient of *every* worker, makes one update, and sends all the same
parameters: the slowest worker and the server's own link set the pace.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from helpers.data_parallel.replica import Replica
from helpers.data_parallel.scheme import Scheme
from helpers.data_parallel.schemes.protocol import GRADIENT, PARAMETERS, receive, wait

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


class Server(Scheme):
    """Rank 0 averages the gradients of all workers, makes the optimizer's step, and answers.

    W = ranks − 1 workers with batch B make one step of batch W·B. Who is silent for ``patience``
    seconds raises SilenceError.
    """

    name = "synchronous, server"
    by_samples = True
    server = 0

    def __init__(self, comm: Intracomm, patience: float = 20.0):
        super().__init__(comm)
        self.patience = patience

    def after_backward(self, replica: Replica, step: int) -> None:
        """Workers send their gradient; the server adds it to the mean."""
        gradients = replica.flat.gradients.numpy()
        if not self.serves:
            sent = self.comm.Isend(gradients, 0, GRADIENT)
            wait(sent, self.patience, "the server did not take the gradient")
            return
        arriving = np.empty_like(gradients)
        for worker in self.workers:
            receive(self.comm, arriving, worker, GRADIENT, self.patience)
            gradients += arriving / len(self.workers)

    def after_step(self, replica: Replica, step: int) -> None:
        """Send the new parameters to every worker."""
        values = replica.flat.values.numpy()
        if not self.serves:
            receive(self.comm, values, 0, PARAMETERS, self.patience)
            return
        for worker in self.workers:
            sent = self.comm.Isend(values, worker, PARAMETERS)
            wait(sent, self.patience, f"rank {worker} did not take the parameters")
