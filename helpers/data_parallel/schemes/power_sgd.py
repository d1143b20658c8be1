"""Gradients as products of two thin matrices, with error feedback (PowerSGD)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from helpers.collectives import allreduce
from helpers.data_parallel.compression import low_rank
from helpers.data_parallel.replica import Replica
from helpers.data_parallel.scheme import Scheme

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm


class PowerSGD(Scheme):
    """Each matrix M of gradients becomes P Qᵀ; vectors travel as they are.

    Two of our ring allreduces in a step: all P, then all Q together with the vectors. Q is kept for
    the next step. What P Qᵀ leaves out is added to the next gradient. P and Q have ``rank``
    columns; ``seed`` is that of the first Q, the same on all ranks.
    """

    by_samples = True

    def __init__(self, comm: Intracomm, rank: int = 2, seed: int = 0):
        super().__init__(comm)
        if rank < 1:
            raise ValueError(f"PowerSGD expects a rank of at least 1; got {rank}")
        self.rank, self.name, self._seed = rank, f"PowerSGD, r = {rank}", seed

    def begin(self, replica: Replica) -> None:
        super().begin(replica)
        shapes = [tuple(p.shape) for p in replica.model.parameters() if p.requires_grad]
        gradients = replica.flat.layers(replica.flat.gradients)
        rng = np.random.default_rng(self._seed)
        self.shapes, self._vectors = shapes, []
        self._matrices: list[np.ndarray] = []
        self._q: list[np.ndarray] = []
        for gradient, shape in zip(gradients, shapes, strict=True):
            matrix = low_rank.shape_of(shape, self.rank)
            if matrix is None:
                self._vectors.append(gradient)
            else:
                self._matrices.append(gradient.reshape(matrix))
                self._q.append(rng.standard_normal((matrix[1], self.rank)).astype(gradient.dtype))
        self._errors = [np.zeros_like(matrix) for matrix in self._matrices]

    def after_backward(self, replica: Replica, step: int) -> None:
        """M + e ≈ P Qᵀ, the same P and Q on all ranks."""
        for matrix, error in zip(self._matrices, self._errors, strict=True):
            matrix += error
        found = self._mean([m @ q for m, q in zip(self._matrices, self._q, strict=True)])
        columns = [low_rank.orthonormal(p) for p in found]
        products = [m.T @ p for m, p in zip(self._matrices, columns, strict=True)]
        means = self._mean([*products, *self._vectors])
        self._q = means[: len(products)]
        for vector, mean in zip(self._vectors, means[len(products) :], strict=True):
            vector[:] = mean
        for matrix, error, p, q in zip(self._matrices, self._errors, columns, self._q, strict=True):
            error[:] = matrix
            np.matmul(p, q.T, out=matrix)
            error -= matrix

    def _mean(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        """All arrays in one allreduce."""
        joined = np.concatenate([array.ravel() for array in arrays])
        allreduce(joined, self.comm, algorithm="ring", out=joined)
        joined /= self.comm.Get_size()
        parts = np.split(joined, np.cumsum([array.size for array in arrays])[:-1])
        return [part.reshape(array.shape) for part, array in zip(parts, arrays, strict=True)]

    def sent(self, itemsize: int = 4) -> int:
        """Return the bytes that all ranks together send in one step, once training has begun.

        2(N − 1) times those of all numbers of P, Q and the vectors.
        """
        return 2 * (self.comm.Get_size() - 1) * itemsize * low_rank.numbers(self.shapes, self.rank)
