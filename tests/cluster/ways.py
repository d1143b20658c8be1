"""The ways to start ranks: forked ones in `make test`, all others in the part `cluster`."""

import time

import pytest

PART = pytest.mark.part(of="cluster")  # above a test: it runs in make test-all PART=cluster
MPIEXEC = pytest.param("mpiexec", marks=PART)
LAUNCHERS = ["mpi", MPIEXEC]


def eventually(condition, seconds=10.0):
    """Return what a condition says at last, once it is true or the time is over."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()
