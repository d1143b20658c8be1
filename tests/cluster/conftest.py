"""Clusters are tested in a kernel where nobody has forked anything yet."""

import pytest

from tests.mpi import runner


@pytest.fixture(scope="module", autouse=True)
def _nobody_else_forks():
    runner.cool_down()
