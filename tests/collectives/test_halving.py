"""The picture of halving and doubling: every rank ends with every sum."""

import pytest

from helpers.collectives import halving


@pytest.mark.parametrize("ranks", [1, 2, 4, 8, 16])
def test_all_ranks_end_with_all_sums_in_few_steps_and_few_bytes(ranks):
    plan = halving.schedule(ranks)
    everybody = frozenset(range(ranks))
    assert all(chunk == everybody for row in plan.states()[-1] for chunk in row)
    assert plan.steps == 2 * (ranks.bit_length() - 1)
    assert plan.sent(1600 * ranks) == [3200 * (ranks - 1)] * ranks


@pytest.mark.parametrize("ranks", [0, 3, -4])
def test_other_numbers_of_ranks_are_refused(ranks):
    with pytest.raises(ValueError, match=f"power of two ranks; got {ranks}"):
        halving.schedule(ranks)
