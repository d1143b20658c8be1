"""Any scheme, paced, looked at now and then, and ended once it is good enough."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from helpers.data_parallel.scheme import Ended
from helpers.waiting import doze

if TYPE_CHECKING:
    from helpers.data_parallel.replica import Replica
    from helpers.data_parallel.scheme import Scheme


class Judged:
    """Looks at what rank 0's replica has learned until `enough`; its own time does not count.

    Hand `inner` to :func:`helpers.data_parallel.train`: its hooks now call these here. `pace` is
    the least time in seconds of a forward and backward pass, see ``helpers.pace``.
    """

    def __init__(
        self,
        inner: Scheme,
        look: Callable[[Replica], Any],
        enough: Callable[[Any], bool],
        every: int,
        pace: float = 0.0,
    ):
        self.inner, self.look, self.enough = inner, look, enough
        self.every, self.pace, self.away = every, pace, 0.0
        self.reached: tuple[int, float] | None = None
        after, before = inner.after_step, inner.before_backward
        backward = inner.after_backward

        def begin_step(replica: Replica, step: int) -> None:
            if step == 0:
                self.began = time.perf_counter()
            self.step_began = time.perf_counter()
            before(replica, step)

        def computed(replica: Replica, step: int) -> None:
            left = self.pace - (time.perf_counter() - self.step_began)
            if left > 0:
                time.sleep(left)
            backward(replica, step)

        def ended(replica: Replica, step: int) -> None:
            after(replica, step)
            if (step + 1) % self.every == 0:
                self._look(replica, step + 1)

        inner.before_backward = begin_step  # type: ignore[method-assign]
        inner.after_backward = computed  # type: ignore[method-assign]
        inner.after_step = ended  # type: ignore[method-assign]

    def _look(self, replica: Replica, steps: int) -> None:
        start, comm = time.perf_counter(), self.inner.comm
        found = self.look(replica) if comm.Get_rank() == 0 else None
        doze(comm)  # a broadcast would keep the cores of those who wait busy
        found = comm.bcast(found)
        seconds = start - self.began - self.away
        self.away += time.perf_counter() - start
        if self.enough(found):
            self.reached = steps, seconds
            raise Ended
