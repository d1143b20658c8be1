"""helpers.collectives against MPI: ranks, sizes, dtypes, operations, layouts, bad input."""

import subprocess
import sys

import pytest

from tests.collectives import on_ranks
from tests.mpi.runner import run_ranks

PART = pytest.mark.part(of="cluster")
CHECKS = [
    on_ranks.check_allreduce_sizes_and_dtypes,
    on_ranks.check_allreduce_ops,
    on_ranks.check_order_of_ranks,
    on_ranks.check_layouts,
    on_ranks.check_same_bits_everywhere,
    on_ranks.check_rooted,
    on_ranks.check_against_mpi_by_name,
    on_ranks.check_bad_input,
    on_ranks.check_inside_a_group,
]


@pytest.mark.mpi
@pytest.mark.parametrize("n", [1, 3, 4, *(pytest.param(n, marks=PART) for n in (2, 5, 7))])
def test_on_ranks(n):
    """All on the same ranks: to start them takes longer than a check."""
    millions = [on_ranks.check_allreduce_of_millions] if n == 3 else []
    run_ranks(n, on_ranks.in_turn, CHECKS + millions, timeout=150)


def test_import_is_light():
    code = (
        "import sys, helpers.collectives; "
        "print([m for m in ('mpi4py', 'torch', 'matplotlib') if m in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert answer.stdout.strip() == "[]", answer.stderr
