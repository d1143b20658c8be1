"""Data-parallel training: one loop, and a class for each scheme by which replicas work together.

    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    replica = Replica(model, torch.nn.functional.cross_entropy, optimizer)
    history = train(replica, loader, Ring(MPI.COMM_WORLD))  # the same call on every rank

A new scheme overrides the hooks of :class:`Scheme` that it needs. Local SGD (Stich, 2019) lets each
replica go its own way and averages the parameters now and then::

    class LocalSGD(Scheme):
        def __init__(self, comm, period):
            super().__init__(comm)
            self.period, self.name = period, f"local SGD, H = {period}"

        def after_step(self, replica, step):
            if (step + 1) % self.period == 0:
                average(replica.flat.values, self.comm)

- ``loop``: :func:`train`; ``replica``: what it trains; ``scheme``: the hooks
- ``flat``: all parameters in one buffer, all gradients in another, and what moves them
- ``history``: what a training leaves behind, and when it ends
- ``schemes``: gradients averaged, by allreduces or by a server, synchronous or asynchronous;
  parameters averaged now and then; workers that fail on purpose
- ``compression``: gradients in fewer bytes; the schemes that send them are in ``schemes``
- ``large_batch``: optimizers, the noise of a gradient, the search for rates
- ``theory``: what is predicted of seconds, drift and stragglers
- ``tasks``: all of it on data, as notebooks ask of their ranks

The modules import torch and mpi4py; this package alone does not.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from helpers.data_parallel.flat import Flat
    from helpers.data_parallel.history import History
    from helpers.data_parallel.loop import train
    from helpers.data_parallel.replica import Replica, slower
    from helpers.data_parallel.scheme import Ended, Scheme, average

__all__ = ["Ended", "Flat", "History", "Replica", "Scheme", "average", "slower", "train"]


def __getattr__(name: str) -> object:
    if name in __all__:
        for home in ("history", "scheme", "flat", "replica", "loop"):  # torch where it is needed
            found = vars(importlib.import_module(f"{__name__}.{home}"))
            if name in found:
                return found[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
