"""What notebooks ask of their ranks: stragglers, links, a transformer on text."""

import math
import os

import pytest

from helpers.data_parallel.tasks import links, stragglers, text
from helpers.data_parallel.tasks.stragglers import sample
from helpers.data_parallel.theory.order_statistics import of_sample
from helpers.machine import usable_cores
from tests.mpi.runner import run_ranks


def _cores() -> bool:
    """Whether this rank may use every core again that it could before."""
    return not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) == usable_cores()


def on_lenet() -> dict:
    return {
        "beside": [stragglers.beside(b, steps=12, pace=5e-3, batch=4) for b in (0, 1)],
        "cores": _cores(),
        "bias": stragglers.by_class(1, steps=4),
        "cures": [
            stragglers.cure(kind, gradients=24)
            for kind in ("plain", "staleness", "constant", "elastic")
        ],
        "sent": {
            name: links.sent(name, [(30, 20), (40,)])
            for name in ("float32", "top 0.01, feedback", "PowerSGD, r = 2")
        },
    }


@pytest.mark.mpi
def test_what_the_notebook_asks_of_its_ranks():
    found = run_ranks(4, on_lenet, timeout=120)
    waits_for_all, for_two = found[0]["beside"]
    times = sample(waits_for_all)
    assert times.shape == (12, 3)
    assert times.min() >= 5e-3  # the pace
    longest = of_sample(times, 3)
    assert longest < waits_for_all.seconds < longest + 1  # the rest is one update
    assert waits_for_all.dropped == 0
    assert for_two.history.gradients == 24
    assert [len(one) for one in for_two.arrivals] == [2] * 12
    if for_two.dropped:
        with pytest.raises(ValueError, match=f"{for_two.dropped} gradients dropped"):
            sample(for_two)
    with pytest.raises(ValueError, match="expected rank 0's run"):
        sample(found[1]["beside"][0])
    assert all(rank["cores"] for rank in found)
    assert found[0]["cures"] == found[1]["cures"]
    assert all(0 <= accuracy <= 1 for accuracy, _ in found[0]["cures"])
    assert found[0]["sent"] == {
        "float32": 2 * 3 / 4 * 4 * 640,
        "top 0.01, feedback": 3 * 8 * 6,  # 6 of 640, to three others
        "PowerSGD, r = 2": 2 * 3 / 4 * 4 * (2 * (30 + 20) + 40),
    }
    with pytest.raises(ValueError, match="'zip'"):
        links.scheme("zip", None)


def on_text() -> dict:
    train, test = text.text()
    names = ("float32", "QSGD, s = 7", "PowerSGD, r = 2")
    return {
        "text": (len(train), len(test)),
        "learned": {name: text.to_loss(name, 3.9, limit=20, batch=4)[0] for name in names},
        "reached": text.to_loss("float32", 100.0, limit=30, batch=1, pace=5e-3),
        "never": text.to_loss("float32", 0.0, limit=4, batch=1, every=2),
    }


@pytest.mark.mpi
def test_a_compressed_transformer_learns():
    first, second = run_ranks(2, on_text, timeout=120)
    assert first["text"] == second["text"] == text.CHARACTERS
    assert set(first["learned"].values()) <= {10, 20}  # from ln 96 = 4.56
    steps, seconds = first["reached"]
    assert steps == 10
    assert seconds > 10 * 5e-3  # the pace
    assert first["never"][0] is None
    assert sum(map(math.prod, text.shapes())) == text.PARAMETERS
