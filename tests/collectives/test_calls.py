"""helpers.collectives against MPI: ranks, sizes, dtypes, layouts, bad input."""

import pytest

from tests.cluster.ways import PART
from tests.collectives import on_ranks as checks
from tests.mpi.several import on_ranks


@pytest.mark.mpi
@pytest.mark.parametrize("n", [1, 3, 4, *(pytest.param(n, marks=PART) for n in (2, 5, 7))])
def test_on_ranks(n):
    chosen = [checks.check_allreduce_sizes_and_dtypes, checks.check_layouts, checks.check_rooted]
    chosen += [checks.check_same_bits_everywhere, checks.check_bad_input]
    chosen += [checks.check_inside_a_group]
    chosen += [checks.check_allreduce_of_millions] if n == 3 else []
    on_ranks(n, *((check,) for check in chosen))
