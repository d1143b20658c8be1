"""When each rank computes: what a picture of waiting is drawn from."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from helpers.data_parallel import runs

if TYPE_CHECKING:
    from helpers.data_parallel.replica import Replica
    from helpers.data_parallel.scheme import Scheme


def computing(scheme: type[Scheme], **settings: Any) -> list[tuple[float, float]]:
    """Train LeNet, and note when this rank computed its gradients; every rank calls.

    Parameters
    ----------
    scheme : type
        The scheme's class.
    **settings : Any
        As for :func:`helpers.data_parallel.runs.train`.

    Returns
    -------
    list of tuple of float
        Beginning and end of each gradient, in seconds since the first rank began its first; empty
        on a rank that serves. The ranks share one machine's clock.
    """
    noted: list[list[float]] = []

    class Watched(scheme):  # type: ignore[misc, valid-type]
        def before_backward(self, replica: Replica, step: int) -> None:
            super().before_backward(replica, step)
            noted.append([time.monotonic()])

        def after_backward(self, replica: Replica, step: int) -> None:
            noted[-1].append(time.monotonic())
            super().after_backward(replica, step)
            if self.serves:
                noted.clear()

    comm = runs.world()
    runs.train(Watched, comm, **settings)
    mine = [(begin, end) for begin, end in (span for span in noted if len(span) == 2)]
    first = min(begin for spans in comm.allgather(mine) for begin, _ in spans)
    return [(begin - first, end - first) for begin, end in mine]
