"""Clusters are tested in a kernel where nobody has forked anything yet."""

import pytest

from tests.cluster.kernel import SETUP, Kernel
from tests.mpi import runner


@pytest.fixture(scope="module", autouse=True)
def _nobody_else_forks():
    runner.cool_down()


@pytest.fixture(scope="module")
def cell():
    """A kernel with three ranks: called with a cell, it returns what the cell showed."""
    with Kernel() as kernel:
        assert not kernel(SETUP).error
        yield kernel
