"""What one training run leaves behind (losses, staleness, times, a report), and when it ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

RECENT = 20  # updates behind a loss: one mini-batch is too noisy


@dataclass
class History:
    """One run of training. Lists have one entry for each update of the parameters.

    ``seconds`` count from when all ranks began. ``losses`` are means over the samples behind the
    update, ``staleness`` how many updates the parameters behind the gradient were old (synchronous:
    0),
    and ``workers`` the rank that brought the gradient (−1: all of them). ``gradients`` counts the
    mini-batches whose gradient entered an update.

    ``compute`` is the seconds of a forward and backward pass, ``synchronize`` those that a step
    spends waiting and moving: medians over the steps, of the slowest rank and of the rank that
    waited least. ``accuracy`` on the test digits is 0 to 1; ``weights`` (P,) are all trained
    parameters at the end, float32. ``report`` has the faults, in the order of their discovery,
    ``ended`` says in words what ended the run, and ``samples`` those of each mini-batch of this
    replica.
    """

    scheme: str
    ranks: int
    batch: int
    seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    staleness: list[int] = field(default_factory=list)
    workers: list[int] = field(default_factory=list)
    gradients: int = 0
    compute: float = 0.0
    synchronize: float = 0.0
    accuracy: float | None = None
    weights: np.ndarray | None = None
    report: list[str] = field(default_factory=list)
    ended: str = ""
    samples: list[int] = field(default_factory=list)

    def add(self, seconds: float, loss: float, staleness: int = 0, worker: int = -1) -> None:
        """Append one update."""
        self.seconds.append(seconds)
        self.losses.append(loss)
        self.staleness.append(staleness)
        self.workers.append(worker)

    @property
    def updates(self) -> int:
        """How often the parameters changed."""
        return len(self.losses)

    def smooth(self, window: int = 20) -> np.ndarray:
        """Average each loss with up to ``window`` − 1 before it: one batch is too noisy."""
        if window < 1:
            raise ValueError(f"window must be at least 1; got {window}")
        total = np.cumsum(np.insert(np.asarray(self.losses, float), 0, 0.0))
        ends = np.arange(1, self.updates + 1)
        begins = np.maximum(0, ends - window)
        return (total[ends] - total[begins]) / (ends - begins)

    def pooled(self, comm: Intracomm, workers: list[int]) -> History:
        """Pool the histories of ranks that trained synchronously; every rank of ``comm`` calls.

        The result is the same on all ranks: mean losses of ``workers``, seconds of the last to end
        an update. Without ``weights``, which may differ.
        """
        mine = self.batch, self.seconds, self.losses, self.compute, self.synchronize, self.report
        everyone = comm.allgather((*mine, self.samples))
        batches, _, losses, compute, synchronize, _, samples = zip(
            *(everyone[rank] for rank in workers), strict=True
        )
        faults = _not_finite(losses, workers) + _unlike(samples, workers)
        return History(
            self.scheme,
            self.ranks,
            max(batches),
            np.max([told[1] for told in everyone], axis=0).tolist(),
            np.mean(losses, 0).tolist(),
            self.staleness,
            self.workers,
            gradients=self.updates * len(workers),
            compute=max(compute),
            synchronize=min(synchronize),
            report=[line for told in everyone for line in told[5]] + faults,
            ended=self.ended,
            samples=self.samples,
        )


def _not_finite(losses: Sequence[Sequence[float]], workers: list[int]) -> list[str]:
    """Say whose loss was first not finite; the average brings it to all."""
    for update, several in enumerate(zip(*losses, strict=True), 1):
        if found := [f"rank {r}: {x}" for r, x in zip(workers, several, strict=True) if x - x != 0]:
            return [f"update {update} is the first with a loss that is not finite ({found[0]})"]
    return []


def _unlike(samples: Sequence[Sequence[int]], workers: list[int]) -> list[str]:
    """Say where workers had batches of different lengths, of which each counted as much."""
    for update, several in enumerate(zip(*samples, strict=False), 1):
        if len(set(several)) > 1:
            had = ", ".join(f"{n} on rank {r}" for r, n in zip(workers, several, strict=True))
            return [
                f"update {update} averaged batches of unlike length as if they were alike ({had} "
                "samples): drop what an epoch leaves over (drop_last=True)"
            ]
    return []


@dataclass(frozen=True)
class Stop:
    """When a training ends: with the first of these that is reached; None stands for never.

    Parameters
    ----------
    updates
        A whole number of at least 1.
    seconds
        Since all ranks began: positive and finite.
    loss
        The mean over the last :data:`RECENT` updates, not looked at before there are so many.

    Raises
    ------
    ValueError
        For any other value.
    """

    updates: int | None = None
    seconds: float | None = None
    loss: float | None = None

    def __post_init__(self) -> None:
        """Refuse what would never end a training, or end it before it began."""
        updates, seconds, loss = self.updates, self.seconds, self.loss
        if not (
            (updates is None or (type(updates) is int and updates >= 1))
            and (seconds is None or 0 < seconds < math.inf)
            and (loss is None or math.isfinite(loss))
        ):
            raise ValueError(
                "Stop expects a whole number of updates from 1, more than 0 seconds and a finite "
                f"loss; got {self}"
            )

    def reached(self, history: History, elapsed: float) -> str:
        """Find the condition that holds; return it in words, or an empty string."""
        if self.updates is not None and history.updates >= self.updates:
            return f"{history.updates} updates"
        if self.seconds is not None and elapsed >= self.seconds:
            return f"{self.seconds:g} s"
        if self.loss is not None and history.updates >= RECENT:
            recent = float(np.mean(history.losses[-RECENT:]))
            if recent <= self.loss:
                return f"loss {recent:.3f}"
        return ""
