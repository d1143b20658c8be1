"""Ranks notice that other programs have the cores."""

import pytest

from helpers.machine import usable_cores
from helpers.machine.neighbour import Neighbours
from tests.mpi.runner import run_ranks


def shares():
    from helpers.collectives import quiet

    return quiet.share(0.3)


@pytest.mark.mpi
def test_what_others_have_the_ranks_lack():
    with Neighbours(2 * usable_cores(), rest=0):
        first, second = run_ranks(2, shares)
    assert first == second
    assert 0 < first < 0.9
