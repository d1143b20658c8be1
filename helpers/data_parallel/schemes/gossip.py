"""Gossip on a ring (Lian et al., 2017): in every step each replica mixes with two neighbours."""

from __future__ import annotations

import numpy as np

from helpers.data_parallel.replica import Replica
from helpers.data_parallel.scheme import Scheme
from helpers.data_parallel.schemes.protocol import wait

THIRD = 1 / 3
PATIENCE = 600.0  # seconds
LEFTWARDS, RIGHTWARDS = 21, 22  # tags


def mixing(ranks: int, weight: float = THIRD) -> np.ndarray:
    """Make the matrix W by which replicas on a ring mix: θ_i ← Σ_j W_ij·θ_j.

    Parameters
    ----------
    weight
        w of each neighbour, in [0, 1/2]; a replica itself keeps 1 − 2w. On two ranks both
        neighbours are the same one.

    Returns
    -------
    (R, R) numpy.ndarray
        Its rows add up to 1.
    """
    if ranks < 1 or not 0 <= weight <= 0.5:
        raise ValueError(
            f"mixing expects at least 1 rank and a weight from 0 to 1/2; got {ranks!r}, {weight!r}"
        )
    W = (1 - 2 * weight) * np.eye(ranks)
    for shift in (1, -1):
        W += weight * np.roll(np.eye(ranks), shift, axis=1)
    return W


def spectral_gap(W: np.ndarray) -> float:
    """Return ``1 − |λ₂|``: the part of the slowest difference that one mixing removes.

    From 0 (some difference never shrinks) to 1 (one mixing makes all equal). ValueError unless W
    (R, R) is symmetric with rows that add up to 1.
    """
    W = np.asarray(W, float)
    square = W.ndim == 2 and W.shape[0] == W.shape[1]
    if not (square and np.allclose(W, W.T) and np.allclose(W.sum(1), 1)):
        raise ValueError(f"expected a symmetric matrix whose rows add up to 1; got {W!r}")
    others = np.sort(np.abs(np.linalg.eigvalsh(W)))[:-1]
    return 1.0 - float(others[-1]) if len(others) else 1.0


class Gossip(Scheme):
    """Each replica becomes (1 − 2w)·itself + w·(its left and its right neighbour), in every step.

    Each rank sends two messages of all parameters after a step, on any number of ranks. There is no
    allreduce: the replicas are never equal, only near to each other; w is 1/3.
    """

    name = "gossip"

    def begin(self, replica: Replica) -> None:
        """Make room for what the neighbours send."""
        super().begin(replica)
        values = replica.flat.values.numpy()
        self._left, self._right = np.empty_like(values), np.empty_like(values)

    def after_step(self, replica: Replica, step: int) -> None:
        """Exchange parameters with both neighbours, and mix."""
        ranks, rank = self.comm.Get_size(), self.comm.Get_rank()
        left, right = (rank - 1) % ranks, (rank + 1) % ranks
        values = replica.flat.values.numpy()
        for request in [
            self.comm.Irecv(self._left, left, RIGHTWARDS),
            self.comm.Irecv(self._right, right, LEFTWARDS),
            self.comm.Isend(values, right, RIGHTWARDS),
            self.comm.Isend(values, left, LEFTWARDS),
        ]:
            wait(request, PATIENCE, "a neighbour did not gossip")
        values *= 1 - 2 * THIRD
        values += THIRD * (self._left + self._right)
