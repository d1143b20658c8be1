"""What many restarts come to, and what a client that missed a word does."""

import gc
import weakref

import ipyparallel
import pytest

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
