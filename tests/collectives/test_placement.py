"""What an allreduce costs on hosts: priced by hand, and against the model without hosts."""

import pytest

from helpers.collectives import ALGORITHMS, cost, placement
from helpers.collectives.cost import Link

MEMORY = Link("memory", 1e-6, 1e-9)
SLOW = Link("slow", 1e-3, 1e-6)
BLOCK, DEALT = (0, 0, 1, 1, 2, 2, 3, 3), (0, 1, 2, 3, 0, 1, 2, 3)


@pytest.mark.parametrize("algorithm", ["chain", "tree", "recursive_doubling", "ring"])
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_with_a_host_for_each_rank_it_is_the_model_without_hosts(algorithm, ranks):
    apart = tuple(range(ranks))
    (found,) = placement.seconds(algorithm, [80_000], apart, MEMORY, SLOW)
    assert found == pytest.approx(cost.allreduce(algorithm, ranks, SLOW).at(80_000))


@pytest.mark.parametrize("algorithm", list(ALGORITHMS))
def test_on_one_host_no_byte_takes_the_link(algorithm):
    (found,) = placement.seconds(algorithm, [80_000], (0,) * 4, MEMORY, SLOW)
    (same,) = placement.seconds(algorithm, [80_000], (0,) * 4, MEMORY, Link("none", 0.0, 0.0))
    assert found == same


def test_the_rings_of_two_seatings_by_hand():
    size = 80_000
    (block,) = placement.seconds("ring", [size], BLOCK, MEMORY, SLOW)
    (dealt,) = placement.seconds("ring", [size], DEALT, MEMORY, SLOW)
    assert block == pytest.approx(14 * (1e-3 + size / 8 * 1e-6))
    assert dealt == pytest.approx(14 * (1e-3 + 2 * size / 8 * 1e-6))


def test_two_levels_by_hand():
    size = 80_000
    (found,) = placement.seconds("two_level", [size], BLOCK, MEMORY, SLOW)
    between = 6 * (1e-3 + size / 4 * 1e-6)
    inside = 2 * (1e-6 + size / 2 * 1e-9)
    assert found == pytest.approx(between + inside, rel=0.02)


def test_an_algorithm_that_does_not_exist_is_said():
    with pytest.raises(ValueError, match=r"expected one of 'chain', .*; got 'scatter'"):
        placement.seconds("scatter", [1], BLOCK, MEMORY, SLOW)
