"""What a reader sees of a check, in a real kernel."""

import pytest

pytestmark = pytest.mark.mpi

GRID = """
from helpers.exercises import mpi_basics as check

def grid_sums(value, comm):
    rank = comm.Get_rank()
    return comm.Split(rank // 2).allreduce(value), comm.Split(rank % 2).allreduce(value)

check.grid_sums(grid_sums, cluster=cluster)
"""


def test_a_check_that_starts_more_ranks_says_one_thing():
    from tests.cluster.kernel import Kernel

    kernel = Kernel()
    try:
        kernel("from helpers.cluster import Cluster\ncluster = Cluster(n=4)")
        shown = kernel(GRID)
        kernel("cluster.stop()")
    finally:
        kernel.end()
    assert (shown.text, shown.error) == ("grid sums: correct\n", "")
