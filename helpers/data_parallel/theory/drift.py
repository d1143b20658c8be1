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

from helpers.data_parallel.loop import Watcher

if TYPE_CHECKING:
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

    ``count`` is h, ``noise`` σ². With momentum μ, ``rate`` is λ/(1 − μ) for h well above 1/(1 − μ).
    """
    return count * rate**2 * noise * (ranks - 1) / ranks


def by_gossip(W: np.ndarray, rate: float, noise: float) -> float:
    """Predict the Ξ at which gossip settles: as much is mixed away as each step adds.

    Of a difference along W's k-th eigenvector a mixing leaves λ_k, so that its variance s obeys s =
    λ_k²·(s + λ²σ²). Ξ is infinite if some difference is never mixed away.
    """
    kept = np.square(np.sort(np.abs(np.linalg.eigvalsh(W)))[:-1])
    if np.any(kept > 1 - 1e-12):
        return float("inf")
    return float(rate**2 * noise * np.sum(kept / (1 - kept)) / len(W))


@dataclass
class Path(Watcher):
    """Where one replica was every so many steps, before and after what the scheme does then."""

    every: int = 1
    steps: list[int] = field(default_factory=list)
    before: list[np.ndarray] = field(default_factory=list)
    after: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Refuse what is no number of steps."""
        if self.every < 1:
            raise ValueError(f"every expects a number of steps, 1 or more; got {self.every!r}")

    def begun(self, replica: Replica) -> None:
        self.moved(replica, -1)
        self.ended(replica, -1)

    def moved(self, replica: Replica, step: int) -> None:
        if (step + 1) % self.every == 0:
            self.before.append(replica.flat.values.numpy().copy())

    def ended(self, replica: Replica, step: int) -> str:
        if (step + 1) % self.every == 0:
            self.steps.append(step + 1)
            self.after.append(replica.flat.values.numpy().copy())
        return ""


def middle(paths: list[Path]) -> tuple[list[int], np.ndarray]:
    """Average the paths of all ranks' replicas; return the steps and the mean parameters then."""
    found = np.asarray(np.mean([path.after for path in paths], axis=0, dtype=np.float64))
    return paths[0].steps, found.astype(np.float32)
