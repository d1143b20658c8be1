"""Gradients that travel compressed, with or without error feedback.

Codes travel to all ranks by our ring allgather, or by a ring that adds on the way. With codes of c
bytes, N ranks and P values, the allgather sends (N − 1)·c(P) bytes from each rank: the more ranks,
the more. A ring that adds sends 2(N − 1)·c(P/N), but has to round each partial sum anew: N
roundings in place of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from helpers.collectives import allreduce, ring
from helpers.collectives.parts import FIRST_TAG, consecutive, lengths, split
from helpers.data_parallel.compression.compressors import Compressor
from helpers.data_parallel.replica import Replica
from helpers.data_parallel.scheme import Scheme

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

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
        How codes travel: see above. The ring rounds partial sums, whose error
        belongs to nobody: it goes without feedback.

    Attributes
    ----------
    error : numpy.ndarray (P,)
        What this rank has not sent yet; zeros without feedback.
    """

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
            adding_ring(gradients, self.compressor, self.comm)
            return
        if self.feedback:
            gradients += self.error
        code = self.compressor.encode(gradients)
        if self.feedback:
            self.error[:] = 0
            self.compressor.add(code, self.error)
            np.subtract(gradients, self.error, out=self.error)
        allgather(code, self.compressor, self.comm, gradients)

    def sent(self, n: int) -> int:
        """Return the bytes that all ranks together send in one step for n parameters.

        N(N − 1)·c(P) by the allgather; by the ring 2(N − 1) times the codes of all parts.
        """
        ranks = self.comm.Get_size()
        if self.route == "allgather":
            return ranks * (ranks - 1) * self.compressor.nbytes(n)
        return 2 * (ranks - 1) * sum(map(self.compressor.nbytes, lengths(split(n, ranks))))


def allgather(code: np.ndarray, compressor: Compressor, comm: Intracomm, out: np.ndarray) -> None:
    """Set `out` to the mean of what all ranks' codes stand for, alike to the bit everywhere."""
    ranks, rank = comm.Get_size(), comm.Get_rank()
    codes = np.empty(ranks * len(code), np.uint8)
    parts = split(len(codes), ranks)
    codes[parts[rank]] = code
    ring.allgather(codes, comm, parts)
    out[:] = 0
    for part in parts:  # in one order on all ranks: the same bits
        compressor.add(codes[part], out)
    out /= ranks


def adding_ring(values: np.ndarray, compressor: Compressor, comm: Intracomm) -> None:
    """Replace values by their mean over all ranks, rounding what each message carries."""
    n, rank = comm.Get_size(), comm.Get_rank()
    right, left = (rank + 1) % n, (rank - 1) % n
    parts = split(len(values), n)
    for step in range(n - 1):
        give, take = (rank - step - 1) % n, (rank - step - 2) % n
        mine = values[parts[take]]
        arriving = np.empty(compressor.nbytes(len(mine)), np.uint8)
        code = compressor.encode(values[parts[give]])
        comm.Sendrecv(code, right, FIRST_TAG + give, arriving, left, FIRST_TAG + take)
        compressor.add(arriving, mine)
    places = consecutive(compressor.nbytes(count) for count in lengths(parts))
    codes = np.empty(places[-1].stop, np.uint8)
    codes[places[rank]] = compressor.encode(values[parts[rank]])
    ring.allgather(codes, comm, places)
    values[:] = 0
    for part, place in zip(parts, places, strict=True):
        compressor.add(codes[place], values[part])
    values /= n


def orthonormal(p: np.ndarray) -> np.ndarray:
    """Return columns made orthonormal by Gram and Schmidt; a column that vanishes stays 0."""
    found = np.array(p, copy=True)
    for column in range(found.shape[1]):
        before = found[:, :column]
        for _ in range(2):  # twice is enough (Kahan; Parlett 1980, 6.9)
            found[:, column] -= before @ (before.T @ found[:, column])
        length = np.linalg.norm(found[:, column])
        small = length <= 1e-6 * np.linalg.norm(p[:, column])
        found[:, column] = 0 if small else found[:, column] / length
    return found


def shape_of(shape: tuple[int, ...], rank: int) -> tuple[int, int] | None:
    """Return the (m, k) as which a parameter is compressed; None if r(m + k) ≥ m·k numbers."""
    if len(shape) < 2:
        return None
    m, k = shape[0], int(np.prod(shape[1:]))
    return (m, k) if rank * (m + k) < m * k else None


def numbers(shapes: list[tuple[int, ...]], rank: int) -> int:
    """Count the numbers of one step's two allreduces; whole parameters count all their elements."""
    total = 0
    for shape in shapes:
        matrix = shape_of(shape, rank)
        total += rank * sum(matrix) if matrix else int(np.prod(shape))
    return total


class PowerSGD(Scheme):
    """Each matrix M of gradients becomes P Qᵀ; vectors travel as they are.

    Two of our ring allreduces in a step: all P, then all Q together with the vectors. Q is kept for
    the next step: one step of the power method from it (Vogels, Karimireddy, Jaggi, 2019). Both
    products are linear in M, so the mean over ranks commutes with them. What P Qᵀ leaves out is
    added to the next gradient. P and Q have ``rank`` columns; ``seed`` is that of the first Q, the
    same on all ranks.
    """

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
            matrix = shape_of(shape, self.rank)
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
        columns = [orthonormal(p) for p in found]
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

    def sent(self) -> int:
        """Return the bytes that all ranks together send in one step, once training has begun.

        2(N − 1) times those of all numbers of P, Q and the vectors.
        """
        return 2 * (self.comm.Get_size() - 1) * 4 * numbers(self.shapes, self.rank)
