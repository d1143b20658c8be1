import numpy as np
import pytest

from helpers.data_parallel.schemes import Backup, Elastic
from tests.data_parallel import out_of_step
from tests.mpi.runner import run_ranks

pytestmark = pytest.mark.mpi


def test_late_gradients_are_dropped_and_nobody_waits_for_them():
    found = run_ranks(4, out_of_step.backups, timeout=120)[0]
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
    found = run_ranks(2, out_of_step.pulled, period, pull, steps)
    assert found[0]["updates"] == steps
    assert found[0]["centre"] == pytest.approx([centre] * 3, rel=1e-5)
    assert found[1]["mine"] == pytest.approx([worker] * 3, rel=1e-5)


def test_the_cures_train():
    for name, (accuracy, staleness, report) in run_ranks(4, out_of_step.cured, 300)[0].items():
        assert accuracy > 0.3, name  # guessing: 0.1; three runs gave 0.67 or more
        assert 1 < staleness < 3
        assert report[-1].startswith("the server stopped: 300 updates")


class Four:
    """As much of a communicator as a scheme asks before it begins."""

    def Get_size(self):  # noqa: N802
        return 4

    def Get_rank(self):  # noqa: N802
        return 1


def test_settings_that_make_no_sense():
    for backups in (-1, 3):
        with pytest.raises(ValueError, match=f"0 to 2 backups of 3 workers; got {backups}"):
            Backup(Four(), backups)
    for period, pull in ((0, 0.1), (2, 0.0), (2, 1.0)):
        with pytest.raises(ValueError, match=f"got {period} and {pull}"):
            Elastic(Four(), period, pull)
