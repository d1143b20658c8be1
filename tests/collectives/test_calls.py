"""helpers.collectives against MPI: ranks, sizes, dtypes, layouts, bad input."""

import pytest

from tests.collectives import on_ranks
from tests.mpi.runner import run_ranks

PART = pytest.mark.part(of="cluster")
CHECKS = [
    on_ranks.check_allreduce_sizes_and_dtypes,
    on_ranks.check_layouts,
    on_ranks.check_same_bits_everywhere,
    on_ranks.check_rooted,
    on_ranks.check_bad_input,
    on_ranks.check_inside_a_group,
]


@pytest.mark.mpi
@pytest.mark.parametrize("n", [1, 3, 4, *(pytest.param(n, marks=PART) for n in (2, 5, 7))])
def test_on_ranks(n):
    """All on the same ranks: to start them takes longer than a check."""
    millions = [on_ranks.check_allreduce_of_millions] if n == 3 else []
    run_ranks(n, on_ranks.in_turn, CHECKS + millions, timeout=150)
