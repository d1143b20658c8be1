"""The course's first picture: a ball that real processes pass round."""

import pytest

from helpers.cluster import Cluster
from helpers.plots.ring_html import pass_round, ring
from tests.plots.embedded import values


@pytest.mark.mpi
def test_the_ball_goes_round_in_order():
    with Cluster(3) as cluster:
        answers = cluster.run(pass_round, 2)
        with pytest.raises(Exception, match="expects at least one lap; got 0"):
            cluster.run(pass_round, 0)
    html = ring(answers).data
    shown = values(html)
    assert shown["processes"] == [process for process, _ in answers]
    assert len(set(shown["processes"])) == 3
    assert [rank for _, rank in shown["stops"]] == [0, 1, 2, 0, 1, 2, 0]
    assert shown["stops"][0][0] == 0.0
    assert "a ball passed round 2 times" in html


@pytest.mark.parametrize("ranks", [0, 1, 9])
def test_other_numbers_of_ranks_are_refused(ranks):
    with pytest.raises(ValueError, match=f"2 to 8 ranks; got {ranks}"):
        ring([(rank, [0.0]) for rank in range(ranks)])
