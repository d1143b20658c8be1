"""The ways to start ranks: forked ones in `make test`, all others in the part `cluster`."""

import pytest

from helpers.cluster import Mpiexec
from helpers.waiting import comes_true

PART = pytest.mark.part(of="cluster")  # above a test: it runs in make test-all PART=cluster
MPIEXEC = pytest.param(Mpiexec(), marks=PART, id="mpiexec")
WAYS = [pytest.param(None, id="fork"), MPIEXEC]

eventually = comes_true
