"""The ways to start ranks: forked ones in `make test`, all others in the part `cluster`."""

import contextlib
import sys
from pathlib import Path

import pytest

from helpers.cluster import Cluster, Mpiexec, StartError
from helpers.waiting import comes_true

PART = pytest.mark.part(of="cluster")  # above a test: it runs in make test-all PART=cluster
MPIEXEC = pytest.param(Mpiexec(), marks=PART, id="mpiexec")
WAYS = [pytest.param(None, id="fork"), MPIEXEC]

eventually = comes_true


def mapped(pid: int) -> set[str]:
    """Return the files in shared memory that a process maps, as /proc writes their names."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {line.partition("/dev/shm/")[2] for line in lines if "/dev/shm/" in line}


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
