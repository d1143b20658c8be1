"""What the tests of backup workers and of asynchrony's cures run on their ranks."""

from __future__ import annotations

import functools

import numpy as np

from helpers.data_parallel.runs import ranks as _comm


class _Drawn:
    """Rank 3 needs 60 ms, the others 5."""

    def __init__(self, rank):
        self.rank = rank

    def __call__(self, step):
        return 0.06 if self.rank == 3 else 0.005


def backup(steps: int, backups: int, abandon: bool) -> dict:
    from helpers.data_parallel import runs
    from helpers.data_parallel.schemes import Backup

    kept = []

    def made(comm):
        kept.append(Backup(comm, backups, _Drawn(comm.Get_rank()), abandon))
        return kept[0]

    history = runs.train(made, _comm(), steps=steps, batch=4, momentum=0.0)
    found = {name: getattr(kept[0], name) for name in ("taken", "dropped")}
    return found | {"seconds": history.seconds[-1], "weights": history.weights,
                    "updates": history.updates, "gradients": history.gradients}  # fmt: skip


def backups() -> dict:
    """Nobody dropped; the slow one dropped late or at once; and in step, by the plain server."""
    from helpers.data_parallel import runs
    from helpers.data_parallel.schemes import Server

    found = {(b, abandon): backup(12, b, abandon) for b in (0, 1) for abandon in (False, True)}
    plain = runs.train(Server, _comm(), steps=12, batch=4, momentum=0.0)
    return found | {"server": plain.weights}


def pulled(period: int, pull: float, steps: int) -> dict:
    """Where one worker and the centre go, whose gradient is 1 everywhere and whose rate is 1."""
    import torch

    from helpers.data_parallel import Replica, train
    from helpers.data_parallel.schemes import Elastic

    comm = _comm()
    model = torch.nn.Linear(3, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    replica = Replica(model, lambda z, y: z.sum(), torch.optim.SGD(model.parameters(), lr=1.0))
    history = train(replica, [(torch.ones(1, 3), None)] * (period * steps),
                    Elastic(comm, period, pull), steps=steps)  # fmt: skip
    return {"centre": history.weights.tolist(), "mine": replica.flat.values.tolist(),
            "updates": history.updates}  # fmt: skip


def cured(steps: int) -> dict[str, tuple]:
    """Accuracy and staleness by each cure."""
    from helpers.data_parallel import runs
    from helpers.data_parallel.schemes import Elastic, StalenessAware

    found = {}
    for scheme in (StalenessAware, functools.partial(Elastic, period=2, pull=0.2)):
        history = runs.train(scheme, _comm(), steps=steps, batch=8, rate=0.1, momentum=0.0)
        found[history.scheme] = history.accuracy, float(np.mean(history.staleness)), history.report
    return found
