"""helpers.collectives.double_tree: every rank gets the sum, and none sends more than 2 K."""

import itertools

import pytest

from helpers.collectives.double_tree import parents, schedule


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 8, 13])
def test_every_rank_ends_with_the_sum_of_every_chunk(ranks, pieces):
    plan = schedule(ranks, pieces)
    assert all(chunk == {*range(ranks)} for rank in plan.states()[-1] for chunk in rank)
    assert max(plan.sent(100 * plan.chunks)) <= 2 * 100 * plan.chunks
    for step in range(1, plan.steps + 1):
        now = plan.at(step)
        assert len({t.source for t in now}) == len({t.dest for t in now}) == len(now)


@pytest.mark.parametrize("ranks", [2, 7, 64])
def test_who_has_children_in_one_tree_is_a_leaf_of_the_other(ranks):
    inner = {*parents(ranks).values()}
    both = inner & {(rank + 1) % ranks for rank in inner}
    assert both <= ({0} if ranks % 2 else set())


def test_steps_grow_with_the_logarithm_and_with_the_pieces():
    steps = [schedule(ranks).steps for ranks in (16, 64, 256)]
    assert [b - a for a, b in itertools.pairwise(steps)] == [8, 8]  # two levels: four each
    assert schedule(256, 16).steps < 4 * 8 + 5 * 16


def test_bad_input():
    with pytest.raises(ValueError, match="ranks and pieces >= 1; got 4 and 0"):
        schedule(4, 0)
