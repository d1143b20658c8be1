"""How far replicas are apart: predicted from the noise of their gradients, and followed in a run.

The *consensus distance* Ξ = (1/R) Σ_r ‖θ_r − mean θ‖² is what local SGD and gossip allow to grow. A
replica's gradient is g_r = ∇L + noise, the noise of variance σ² (summed over all parameters) and
independent from rank to rank. Near enough to each other the replicas share ∇L; then only the noise
drives them apart, and each step of rate λ adds λ²σ²(R − 1)/R to Ξ.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from helpers.data_parallel.scheme import Scheme

if TYPE_CHECKING:
    from helpers.data_parallel.history import History
    from helpers.data_parallel.replica import Replica


def consensus(values: np.ndarray) -> np.ndarray:
    """Compute Ξ of replicas (R, ..., P): the mean squared distance from their mean.

    >>> consensus(np.array([[0.0, 0.0], [2.0, 0.0]])).item()
    1.0
    """
    values = np.asarray(values, float)
    return np.square(values - values.mean(0)).sum(-1).mean(0)


def after_steps(count: int | np.ndarray, rate: float, noise: float, ranks: int) -> Any:
    """Predict Ξ so many steps after an average: it grows in a straight line. Ξ = h·λ²·σ²·(R − 1)/R.

    Parameters
    ----------
    count : int or numpy.ndarray
        h, steps since the replicas were equal.
    rate : float
        λ; with momentum μ, λ/(1 − μ) for h well above 1/(1 − μ).
    noise : float
        σ², the variance of one replica's gradient, summed over the parameters.
    """
    return count * rate**2 * noise * (ranks - 1) / ranks


def by_gossip(W: np.ndarray, rate: float, noise: float, overlap: bool = False) -> float:
    """Predict the Ξ at which gossip settles: as much is mixed away as each step adds.

    Of a difference along W's k-th eigenvector a mixing leaves λ_k, so that its variance s obeys s =
    λ_k²·(s + λ²σ²), or with `overlap` s = λ_k²·s + λ²σ², since the step is not mixed. Ξ is infinite
    if some difference is never mixed away.
    """
    kept = np.square(np.sort(np.abs(np.linalg.eigvalsh(W)))[:-1])
    if np.any(kept > 1 - 1e-12):
        return float("inf")
    left = (1.0 if overlap else kept) / (1 - kept)
    return float(rate**2 * noise * np.sum(left) / len(W))


def bytes_sent(parameters: int, ranks: int, averages: float, itemsize: int = 4) -> float:
    """Return the bytes that each rank sends for so many averages by a ring: 2(R − 1)/R of P each.

    Local SGD makes steps/H averages. Where R does not divide P, it is the average over the ranks.
    """
    return averages * 2 * (ranks - 1) / ranks * parameters * itemsize


@dataclass
class Path:
    """Where one replica was, before and after what the scheme does at a step's end."""

    steps: list[int] = field(default_factory=list)
    before: list[np.ndarray] = field(default_factory=list)
    after: list[np.ndarray] = field(default_factory=list)


class Followed(Scheme):
    """Wraps a synchronous scheme, and keeps the replica's path every so many steps."""

    def __init__(self, scheme: Scheme, every: int = 1):
        super().__init__(scheme.comm)
        if every < 1:
            raise ValueError(f"every expects a number of steps, 1 or more; got {every!r}")
        self.inner, self.every, self.name = scheme, every, scheme.name
        self.server, self.in_step = scheme.server, scheme.in_step
        self.path = Path()

    def begin(self, replica: Replica) -> None:
        """Let the scheme begin, and keep where it does."""
        self.inner.begin(replica)
        self._keep(0, replica.flat.values.numpy().copy(), replica)

    def _keep(self, step: int, before: np.ndarray, replica: Replica) -> None:
        self.path.steps.append(step)
        self.path.before.append(before)
        self.path.after.append(replica.flat.values.numpy().copy())

    def before_backward(self, replica: Replica, step: int) -> None:
        self.inner.before_backward(replica, step)

    def after_backward(self, replica: Replica, step: int) -> None:
        self.inner.after_backward(replica, step)

    def update(self, replica: Replica, step: int) -> None:
        self.inner.update(replica, step)

    def after_step(self, replica: Replica, step: int) -> None:
        kept = (step + 1) % self.every == 0
        before = replica.flat.values.numpy().copy() if kept else None
        self.inner.after_step(replica, step)
        if before is not None:
            self._keep(step + 1, before, replica)

    def leave(self, reason: str) -> None:
        self.inner.leave(reason)

    def end(self, replica: Replica) -> History:
        return self.inner.end(replica)


def middle(paths: list[Path]) -> tuple[list[int], np.ndarray]:
    """Average the paths of all ranks' replicas; return the steps and the mean parameters then."""
    found = np.asarray(np.mean([path.after for path in paths], axis=0, dtype=np.float64))
    return paths[0].steps, found.astype(np.float32)
