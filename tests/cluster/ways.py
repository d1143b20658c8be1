"""The ways to start ranks: forked ones in `make test`, all others in the part `cluster`."""

import contextlib
import sys

import pytest

from helpers.cluster import Cluster, Mpiexec, StartError
from helpers.waiting import comes_true

PART = pytest.mark.part(of="cluster")  # above a test: it runs in make test-all PART=cluster
MPIEXEC = pytest.param(Mpiexec(), marks=PART, id="mpiexec")
WAYS = [pytest.param(None, id="fork"), MPIEXEC]

eventually = comes_true


@contextlib.contextmanager
def on_hosts(n, network, **options):
    """Yield a cluster on hosts within this machine; skip where there can be none."""
    if sys.platform != "linux":
        pytest.skip("hosts are namespaces of Linux")
    try:
        started = Cluster(n, network=network, **options)
    except StartError as error:
        pytest.skip(str(error))
    with started as cluster:
        yield cluster
