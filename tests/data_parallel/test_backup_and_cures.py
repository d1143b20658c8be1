"""Backup workers, cures of staleness, and what schemes refuse."""

import functools

import numpy as np
import pytest
import torch

from helpers.data_parallel import Replica, train
from helpers.data_parallel.schemes import (
    Backup,
    Compressed,
    DiLoCo,
    Elastic,
    LocalSGD,
    PostLocalSGD,
    PowerSGD,
    Server,
    SometimesAveraged,
    StalenessAware,
)
from helpers.data_parallel.schemes.faults import FAULTS, Faulty
from helpers.data_parallel.tasks import lenet
from helpers.data_parallel.tasks import ranks as _comm
from tests.mpi.runner import run_ranks

pytestmark = pytest.mark.mpi


def backup(steps: int, backups: int, abandon: bool) -> dict:
    """Rank 3 needs 60 ms, the others 5."""
    seconds = 0.06 if _comm().Get_rank() == 3 else 0.005
    scheme = Backup(_comm(), backups, lambda step: seconds, abandon)
    history = lenet.train(lambda comm: scheme, _comm(), steps=steps, batch=4, momentum=0.0)
    found = {"taken": scheme.taken, "dropped": scheme.dropped}
    return found | {"seconds": history.seconds[-1], "weights": history.weights,
                    "updates": history.updates, "gradients": history.gradients}  # fmt: skip


def all_ways() -> dict:
    """Nobody dropped; the slow one dropped late or at once; and by the plain server."""
    found = {(b, abandon): backup(12, b, abandon) for b in (0, 1) for abandon in (False, True)}
    plain = lenet.train(Server, _comm(), steps=12, batch=4, momentum=0.0)
    return found | {"server": plain.weights}


def pulled(period: int, pull: float, steps: int) -> dict:
    """Where one worker and the centre go, whose gradient is 1 everywhere and whose rate is 1."""
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
    found = {}
    for scheme in (StalenessAware, functools.partial(Elastic, period=2, pull=0.2)):
        history = lenet.train(scheme, _comm(), steps=steps, batch=8, rate=0.05, momentum=0.0)
        found[history.scheme] = history.accuracy, float(np.mean(history.staleness)), history.report
    return found


def test_late_gradients_are_dropped_and_nobody_waits_for_them():
    found = run_ranks(4, all_ways, timeout=120)[0]
    server = found.pop("server")
    for (backups, abandon), run in found.items():
        assert run["updates"] == 12
        assert run["gradients"] == 12 * (3 - backups)
        assert all(len(taken) == 3 - backups for taken in run["taken"])
        if not backups:
            assert np.abs(run["weights"] - server).max() < 1e-5
            assert run["dropped"] == 0
            assert run["seconds"] > 12 * 0.06
        else:
            assert sum(3 in taken for taken in run["taken"]) <= 3
            assert run["dropped"] > 0 or abandon
            assert run["seconds"] < found[0, abandon]["seconds"], "it waited for the slow one"


def test_a_worker_and_the_centre_pull_on_each_other():
    period, pull, steps = 3, 0.25, 4
    worker = centre = 0.0
    for _ in range(steps):
        worker -= period
        apart = pull * (worker - centre)
        worker, centre = worker - apart, centre + apart
    found = run_ranks(2, pulled, period, pull, steps)
    assert found[0]["updates"] == steps
    assert found[0]["centre"] == pytest.approx([centre] * 3, rel=1e-5)
    assert found[1]["mine"] == pytest.approx([worker] * 3, rel=1e-5)


def test_the_cures_train():
    for name, (accuracy, staleness, report) in run_ranks(3, cured, 200)[0].items():
        assert accuracy > 0.3, name  # guessing: 0.1; more than twice that
        assert 0.5 < staleness < 2
        assert report[-1].startswith("the server stopped: 200 updates")


class Four:
    """As much of a communicator as a scheme asks before it begins."""

    def Get_size(self):  # noqa: N802
        return 4

    def Get_rank(self):  # noqa: N802
        return 1


@pytest.mark.parametrize(
    ("scheme", "given", "said"),
    [
        (Backup, [-1], "0 to 2 backups of 3 workers; got -1"),
        (Backup, [3], "0 to 2 backups of 3 workers; got 3"),
        (Elastic, [0, 0.1], "got 0 and 0.1"),
        (Elastic, [2, 0.0], "got 2 and 0.0"),
        (Elastic, [2, 1.0], "got 2 and 1.0"),
        (Faulty, [{1: ("explode", 1)}], f"one of {', '.join(FAULTS)}; got 'explode'"),
        (LocalSGD, [-1], "got -1"),
        (LocalSGD, [2.5], "got 2.5"),
        (LocalSGD, [lambda step: None], "got None"),
        (PostLocalSGD, [0, 5], "got 0"),
        (SometimesAveraged, ["two"], "got 'two'"),
        (DiLoCo, [4, 0.0], "got rate=0.0"),
        (DiLoCo, [4, 0.7, 1.0], "momentum=1.0"),
        (Compressed, [None, False, "pigeons"], "got 'pigeons'"),
        (Compressed, [None, True, "ring"], "feedback=True"),
        (PowerSGD, [0], "got 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused_with_what_was_passed(scheme, given, said):
    with pytest.raises((TypeError, ValueError), match=said):
        scheme(Four(), *given)
