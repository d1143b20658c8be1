"""What a scheme of data-parallel training is: hooks around the steps of the one loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.data_parallel.history import History

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm
    from torch import Tensor

    from helpers.data_parallel.replica import Replica


class Ended(Exception):  # noqa: N818 - no error: this rank's training is over
    """Raised by a hook: this rank makes no further step."""


class Scheme:
    """What travels between the ranks, and when: override the hooks you need.

    As it stands every replica begins with rank 0's parameters and trains alone. In each step
    :func:`helpers.data_parallel.train` calls, on every rank::

        scheme.before_backward(replica, step)
        replica.backward(x, y)              # not on the rank that serves
        scheme.after_backward(replica, step)
        scheme.update(replica, step)        # the optimizer's step
        scheme.after_step(replica, step)

    A hook changes ``replica.flat.gradients`` or ``replica.flat.values`` in place, and finds what
    has been so far in ``replica.history``, and in ``replica.stop`` what ends the run. It may raise
    :class:`Ended`.

    Attributes
    ----------
    server : int or None
        The rank that computes no gradient but serves the others, if there is one.
    synchronous : bool
        Whether all ranks make the same number of steps. If not, ``step`` counts each rank's own,
        and the server's are the updates.
    worker, staleness : int
        Of the last update: the rank whose gradient it was (−1: all of them), and how many updates
        had been made since that rank took its parameters.
    """

    name = "alone"
    server: int | None = None
    synchronous = True
    worker = -1
    staleness = 0

    def __init__(self, comm: Intracomm):
        self.comm = comm
        if self.server is not None and comm.Get_size() < 2:
            raise ValueError(f"a server and a worker need at least 2 ranks; got {comm.Get_size()}")

    @property
    def workers(self) -> list[int]:
        """The ranks that compute gradients."""
        return [rank for rank in range(self.comm.Get_size()) if rank != self.server]

    @property
    def serves(self) -> bool:
        """Whether this rank is the server."""
        return self.comm.Get_rank() == self.server

    def begin(self, replica: Replica) -> None:
        """Do what comes before the first step: here all replicas become as rank 0's."""
        self.comm.Bcast(replica.flat.values.numpy(), root=0)
        self.share_untrained(replica)

    def share_untrained(self, replica: Replica) -> None:
        """Take from rank 0 what no gradient moves: frozen parameters and buffers."""
        frozen = (p.data for p in replica.model.parameters() if not p.requires_grad)
        for tensor in (*frozen, *replica.model.buffers()):
            tensor.copy_(self.comm.bcast(tensor, root=0))

    def before_backward(self, replica: Replica, step: int) -> None:
        """Do what comes before the forward and backward pass; the gradients are zero."""

    def after_backward(self, replica: Replica, step: int) -> None:
        """Do what comes between the gradient and the optimizer's step."""

    def update(self, replica: Replica, step: int) -> None:
        """Make the optimizer's step; with a server, only there."""
        if self.server is None or self.serves:
            replica.optimizer.step()

    def after_step(self, replica: Replica, step: int) -> None:
        """Do what comes after the optimizer's step."""

    def leave(self, reason: str) -> None:
        """Tell the others that this rank will raise an error, so that they need not wait for it."""

    def end(self, replica: Replica) -> History:
        """Do what comes after the last step: here the ranks pool their histories."""
        history = replica.history.pooled(self.comm, self.workers)
        history.weights = replica.flat.values.numpy().copy()
        return history


def average(flat: Tensor, comm: Intracomm) -> None:
    """Replace a buffer by its mean over all ranks, by MPI's own allreduce."""
    from mpi4py import MPI

    comm.Allreduce(MPI.IN_PLACE, flat.numpy())
    flat /= comm.Get_size()
