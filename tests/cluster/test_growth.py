"""What many restarts come to, and what a client that missed a word does."""

import dataclasses
import gc
import weakref

import ipyparallel
import pytest

from bench import restarts as bench_restarts
from helpers.cluster import Cluster
from helpers.cluster.start import forked
from tests.cluster.ways import WAYS


@pytest.mark.mpi
@pytest.mark.parametrize("start", WAYS)
def test_a_client_that_is_told_of_no_rank_asks(monkeypatch, start):
    """What the controller publishes while a client connects is lost."""
    monkeypatch.setattr(ipyparallel.Client, "_register_engine", lambda self, message: None)
    with Cluster(2, start=start, start_timeout=20) as cluster:
        assert cluster.run(max, 1, 2) == [2, 2]
        if start is None:
            cluster.restart()
            assert cluster.run(max, 1, 2) == [2, 2]


@pytest.mark.mpi
def test_nothing_keeps_the_client_of_a_controller_that_was_renewed(monkeypatch):
    """A cache of ipyparallel's did: 5 MB of the kernel's memory for each fifty restarts."""
    monkeypatch.setattr(forked, "RENEW_AFTER", 1)
    with Cluster(2) as cluster:
        clients = [weakref.ref(cluster.client)]
        for _ in range(3):
            cluster.restart()
            assert cluster.run(max, 1, 2) == [2, 2]
            clients.append(weakref.ref(cluster.client))
        gc.collect()
        assert [client() is not None for client in clients] == [False, False, False, True]


def look(restarts, memory=50.0, processes=6, descriptors=30):
    names = bench_restarts.KERNEL, bench_restarts.FORKS
    return bench_restarts.Look(
        restarts, 0.3 * restarts, processes, 31, 0,
        dict.fromkeys(names, descriptors), dict.fromkeys(names, memory),
    )  # fmt: skip


END = bench_restarts.Look(400, 130.0, 0, 0, 0, {}, {})


def test_restarts_that_leave_everything_as_it_was_pass():
    """A process that takes more in its first moments, and a look that met a rank, are no growth."""
    looks = [look(0, 45.0), look(100, 49.0), look(200), look(300, 51.0), look(400, 49.5), END]
    assert bench_restarts.grown(looks) == []
    rows = {row.name: row for row in bench_restarts.rows(looks)}
    assert rows["memory of the kernel alone"].parameters["series"] == [45, 49, 50, 51, 49.5]
    assert rows["a restart and a call"].value == 130 / 400


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"memory": 90.0}, "memory of the kernel: 50.0 MB, then 90.0 MB"),
        ({"processes": 7}, "processes: 6 in the first half, 7 in the second"),
        ({"descriptors": 31}, "open files of the kernel: 30, then 31"),
    ],
)
def test_what_grows_is_named(change, told):
    left = dataclasses.replace(END, files=1, shared=2)
    looks = [look(0), look(100), look(200, **change), look(300, **change), left]
    in_the_end = {"files: 1 left in the end", "shared: 2 left in the end"}
    assert {told, *in_the_end} <= set(bench_restarts.grown(looks))
