"""Gradients that travel compressed, with or without error feedback."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from helpers.data_parallel.compression import routes
from helpers.data_parallel.replica import Replica
from helpers.data_parallel.scheme import Scheme

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

    from helpers.data_parallel.compression.compressors import Compressor

ROUTES = ("allgather", "ring")


class Compressed(Scheme):
    """The mean of compressed gradients.

    With feedback each rank keeps what its code left out and adds it to the next gradient
    (Seide et al., 2014; Karimireddy et al., 2019): p = g + e, code C(p), e ← p − C(p).

    Parameters
    ----------
    compressor : Compressor, or callable
        Or what makes one of this rank's number, such as ``lambda rank: Quantised(7, seed=rank)``.
    route : {"allgather", "ring"}
        How codes travel: see ``compression.routes``. The ring rounds partial sums, whose error
        belongs to nobody: it goes without feedback.

    Attributes
    ----------
    error : numpy.ndarray (P,)
        What this rank has not sent yet; zeros without feedback.
    """

    by_samples = True

    def __init__(
        self,
        comm: Intracomm,
        compressor: Compressor | Callable[[int], Compressor],
        feedback: bool = False,
        route: str = "allgather",
    ):
        super().__init__(comm)
        if route not in ROUTES or (route == "ring" and feedback):
            raise ValueError(
                f"Compressed expects route 'allgather', or 'ring' without feedback; got {route!r}, "
                f"feedback={feedback}"
            )
        self.compressor: Compressor = (
            compressor(comm.Get_rank()) if callable(compressor) else compressor
        )
        self.feedback, self.route = feedback, route
        self.name = getattr(self.compressor, "name", type(self.compressor).__name__)
        self.name += ", feedback" if feedback else ""
        self.name += ", adding ring" if route == "ring" else ""

    def begin(self, replica: Replica) -> None:
        super().begin(replica)
        self.error = np.zeros_like(replica.flat.gradients.numpy())

    def after_backward(self, replica: Replica, step: int) -> None:
        gradients = replica.flat.gradients.numpy()
        if self.route == "ring":
            routes.adding_ring(gradients, self.compressor, self.comm)
            return
        if self.feedback:
            gradients += self.error
        code = self.compressor.encode(gradients)
        if self.feedback:
            self.error[:] = 0
            self.compressor.add(code, self.error)
            np.subtract(gradients, self.error, out=self.error)
        routes.allgather(code, self.compressor, self.comm, gradients)

    def sent(self, n: int) -> int:
        """Return the bytes that all ranks together send in one step for n parameters.

        N(N − 1)·c(P) by the allgather; by the ring 2(N − 1) times the codes of all parts.
        """
        from helpers.collectives.parts import lengths, split

        ranks = self.comm.Get_size()
        if self.route == "allgather":
            return ranks * (ranks - 1) * self.compressor.nbytes(n)
        return 2 * (ranks - 1) * sum(map(self.compressor.nbytes, lengths(split(n, ranks))))
