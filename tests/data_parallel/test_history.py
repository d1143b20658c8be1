"""What a training leaves behind, and when it ends."""

import numpy as np
import pytest

from helpers.data_parallel import schemes
from helpers.data_parallel.history import History, Stop
from helpers.data_parallel.tasks import lenet
from helpers.data_parallel.tasks import ranks as _comm
from tests.cluster.ways import PART
from tests.mpi.runner import run_ranks


def test_smoothing_averages_the_last_updates():
    history = History("x", 1, 1)
    for loss in (4.0, 2.0, 0.0):
        history.add(1.0, loss)
    assert history.smooth(2).tolist() == [4.0, 3.0, 1.0]
    with pytest.raises(ValueError, match="0"):
        history.smooth(0)


def stopped(scheme: str) -> list:
    """How runs with several ends ended: (name, by what, updates, seconds, losses)."""
    made = getattr(schemes, scheme)
    comm, found = _comm(), []
    for name, steps, stop in (
        ("steps", 12, Stop(updates=500, seconds=60.0, loss=-1.0)),
        ("seconds", 10_000, Stop(seconds=0.4)),
        ("loss", 3_000, Stop(loss=1.5)),
        ("seconds before loss", None, Stop(seconds=0.2, loss=-1.0)),
    ):
        settings = {"momentum": 0.0, "batch": 8, "steps": steps, "stop": stop}
        run = lenet.train(made, comm, **settings)
        found.append((name, run.ended, run.updates, run.seconds, run.losses))
    return [comm.Get_rank(), *found]


@pytest.mark.parametrize(
    "given",
    [
        *({"updates": wrong} for wrong in (0, 2.0, True)),
        *({"seconds": wrong} for wrong in (0, float("inf"))),
        {"loss": float("nan")},
    ],
)
def test_a_stop_that_never_comes_is_refused(given):
    ((name, value),) = given.items()
    with pytest.raises(ValueError, match=f"Stop expects .*got Stop\\(.*{name}={value}"):
        Stop(**given)


@pytest.mark.mpi
@pytest.mark.parametrize(
    "scheme",
    ["Asynchronous", *(pytest.param(name, marks=PART) for name in ("MPIAllreduce", "Server"))],
)
def test_a_run_ends_by_what_comes_first(scheme):
    found = run_ranks(3, stopped, scheme, timeout=120)
    assert [each[1:] for each in found] == [found[0][1:]] * 3, "the ranks do not agree"
    for name, ended, updates, seconds, losses in found[0][1:]:
        if name == "steps":
            assert (ended, updates) == ("12 updates", 12)
        elif name == "seconds":
            assert ended == "0.4 s"
            assert 0 < updates < 10_000
            if scheme != "Asynchronous":  # there a hello comes too late, after an update in time
                assert seconds[-1] >= 0.4
        elif name == "loss":
            assert ended == f"loss {np.mean(losses[-20:]):.3f}"
            assert updates >= 20
            assert np.mean(losses[-20:]) <= 1.5 < np.mean(losses[-21:-1])
        else:
            assert (name, ended, updates) == ("seconds before loss", "0.2 s", updates)
