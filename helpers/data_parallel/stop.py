"""When a training ends: without an epoch, after so many updates or seconds, or at a loss."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np

from helpers.data_parallel.history import History

if TYPE_CHECKING:
    from helpers.data_parallel.scheme import Scheme

RECENT = 20  # updates behind a loss: one mini-batch is too noisy


@dataclass(frozen=True)
class Stop:
    """When a training ends: with the first of these that is reached; None stands for never.

    ``seconds`` count from when all ranks began; ``loss`` is the mean over the last :data:`RECENT`
    updates, and not looked at before there are so many. ValueError for another number of updates
    than a whole one of at least 1, for seconds that are not positive and finite, for a loss that is
    not finite.
    """

    updates: int | None = None
    seconds: float | None = None
    loss: float | None = None

    def __post_init__(self) -> None:
        """Refuse what would never end a training, or end it before it began."""
        if self.updates is not None and not (_is(self.updates, Integral) and self.updates >= 1):
            raise ValueError(f"Stop expects a whole number of updates, 1 or more; got {self}")
        if self.seconds is not None and not (_finite(self.seconds) and self.seconds > 0):
            raise ValueError(f"Stop expects more than 0 seconds; got {self}")
        if self.loss is not None and not _finite(self.loss):
            raise ValueError(f"Stop expects a finite loss; got {self}")

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


class Judge:
    """Tells after an update whether the training is over.

    In step all ranks must leave after the same update, or those that go on would wait for the
    others for ever: they agree on rank 0's clock and on the mean of the workers' losses, by one
    allreduce of two numbers. Out of step the server decides alone.
    """

    def __init__(self, scheme: Scheme):
        self.scheme = scheme
        self._together = History(scheme.name, scheme.comm.Get_size(), 0)

    def verdict(self, history: History, elapsed: float) -> str:
        """Return the condition that has ended the training, or ""; synchronous ranks all call."""
        from mpi4py import MPI

        scheme = self.scheme
        if scheme.stop == Stop():
            return ""
        if not scheme.in_step:
            return scheme.stop.reached(history, elapsed) if scheme.serves else ""
        workers, rank = scheme.workers, scheme.comm.Get_rank()
        told = np.array([0.0 if rank else elapsed, history.losses[-1] if rank in workers else 0.0])
        scheme.comm.Allreduce(MPI.IN_PLACE, told)
        seconds, loss = told.tolist()
        self._together.record(seconds, loss / len(workers))
        return scheme.stop.reached(self._together, seconds)


def _is(value: object, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _finite(value: object) -> bool:
    return _is(value, Real) and math.isfinite(value)  # type: ignore[arg-type]
