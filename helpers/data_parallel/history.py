"""What one training run leaves behind: losses on two axes, staleness, times, a report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np


@dataclass
class History:
    """One run of training. Lists have one entry for each update of the parameters.

    ``seconds`` since all ranks began; ``losses`` the mean loss of the samples behind the update;
    ``staleness`` how many updates the parameters were old (0 in synchronous training);
    ``workers`` the rank that brought the gradient (−1: all of them).
    """

    scheme: str
    ranks: int
    batch: int
    seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    staleness: list[int] = field(default_factory=list)
    workers: list[int] = field(default_factory=list)
    gradients: int = 0  # mini-batches whose gradient entered an update
    compute: float = 0.0  # seconds per step of forward and backward, median
    synchronize: float = 0.0  # seconds per step of waiting and moving, median
    accuracy: float | None = None  # of the test digits, 0 to 1
    weights: np.ndarray | None = None  # all parameters at the end, flat, float32
    report: list[str] = field(default_factory=list)  # faults, in the order of their discovery

    def record(self, seconds: float, loss: float, staleness: int = 0, worker: int = -1) -> None:
        """Append one update."""
        self.seconds.append(seconds)
        self.losses.append(loss)
        self.staleness.append(staleness)
        self.workers.append(worker)

    @property
    def updates(self) -> int:
        """How often the parameters changed."""
        return len(self.losses)

    @property
    def steps_per_second(self) -> float:
        """Updates per second of the whole run (0 before the first)."""
        return self.updates / self.seconds[-1] if self.updates else 0.0

    def smooth(self, window: int = 20) -> np.ndarray:
        """Losses (updates,) averaged over the last ``window`` updates: one batch is too noisy."""
        if window < 1:
            raise ValueError(f"window must be at least 1; got {window}")
        total = np.cumsum(np.insert(np.asarray(self.losses, float), 0, 0.0))
        ends = np.arange(1, self.updates + 1)
        begins = np.maximum(0, ends - window)
        return (total[ends] - total[begins]) / (ends - begins)


def batches(count: int, batch: int, rank: int, ranks: int, seed: int) -> Iterator[np.ndarray]:
    """Yield, without end, positions (batch,) in 0..count−1 for one of ``ranks`` ranks.

    Each epoch shuffles anew, the same on every rank, and cuts the order into global batches of
    ranks·batch; rank r takes the r-th part of each. So R ranks with batch B together see exactly
    what one rank with batch R·B sees. Raises ValueError if not even one global batch fits.
    """
    whole = batch * ranks
    if batch < 1 or not 0 <= rank < ranks or whole > count:
        raise ValueError(
            f"batches of {batch} for rank {rank} of {ranks} do not fit {count} samples: "
            "expected batch >= 1, 0 <= rank < ranks and batch·ranks <= samples"
        )
    epoch = 0
    while True:
        order = np.random.default_rng([seed, epoch]).permutation(count)
        for begin in range(0, count - whole + 1, whole):
            yield order[begin + rank * batch : begin + (rank + 1) * batch]
        epoch += 1
