"""When a server ends a training that has no epochs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from helpers.data_parallel.history import History


@dataclass(frozen=True)
class Stop:
    """When the server ends the training: without an epoch, any of these that is not None.

    Parameters
    ----------
    updates : int or None
        So many were made.
    seconds : float or None
        So many have passed.
    loss : float or None
        The mean over the last 20 updates is no more.
    """

    updates: int | None = None
    seconds: float | None = None
    loss: float | None = None

    def reached(self, history: History, elapsed: float) -> str:
        """Find the condition that holds.

        Parameters
        ----------
        history : History
            So far.
        elapsed : float
            Seconds since the beginning.

        Returns
        -------
        str
            The condition in words, or an empty string.
        """
        if self.updates is not None and history.updates >= self.updates:
            return f"{history.updates} updates"
        if self.seconds is not None and elapsed >= self.seconds:
            return f"{self.seconds:g} s"
        if self.loss is not None and history.updates >= 20:
            recent = float(np.mean(history.losses[-20:]))
            if recent <= self.loss:
                return f"loss {recent:.3f}"
        return ""
