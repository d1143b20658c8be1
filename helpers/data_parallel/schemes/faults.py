"""Workers that fail on purpose, to see what a server makes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from helpers.data_parallel.replica import Replica
from helpers.data_parallel.schemes.asynchronous import Asynchronous
from helpers.data_parallel.schemes.protocol import GRADIENT, HELLO, READY, Hello, wait

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

FAULTS = ("die", "die mid-push", "nan", "wrong shape")


class Faulty(Asynchronous):
    """The asynchronous server, with workers that fail.

    ``faults`` is {rank: (kind, push)}: how it fails, one of :data:`FAULTS`, and from which push on.
    ValueError for a kind that there is not.
    """

    def __init__(
        self,
        comm: Intracomm,
        faults: dict[int, tuple[str, int]],
        patience: float = 5.0,
    ):
        super().__init__(comm, patience)
        for kind, _ in faults.values():
            if kind not in FAULTS:
                raise ValueError(f"a fault must be one of {', '.join(FAULTS)}; got {kind!r}")
        self.fault = faults.get(comm.Get_rank())

    def after_backward(self, replica: Replica, step: int) -> None:
        """Push as ever, until the fault."""
        if self.fault is None or step + 1 < self.fault[1]:
            super().after_backward(replica, step)
            return
        gradient = list(self.gradients)
        match self.fault[0]:
            case "die":
                self.leave("it died on purpose, and said so")
                raise self.over("died")
            case "die mid-push":
                self._push_three_layers()
                raise self.over("died mid-push")
            case "nan":
                gradient[0][:] = np.nan
            case "wrong shape":
                gradient[0] = gradient[0][:-1].copy()
        self.push(replica, gradient)

    def _push_three_layers(self) -> None:
        self.comm.send(Hello("gradient", self.sizes), 0, HELLO)
        ready = wait(
            self.comm.irecv(source=0, tag=READY), self.patience, "the server did not answer"
        )
        for layer in self.gradients[:3] if ready.go else []:
            self.comm.Send(layer, 0, GRADIENT)
