import math

import pytest

from helpers.data_parallel import text_runs
from tests.data_parallel import text
from tests.mpi.runner import run_ranks


def test_the_transformer_is_as_large_as_it_says():
    assert sum(map(math.prod, text_runs.shapes())) == text_runs.PARAMETERS == 67_392


@pytest.mark.mpi
def test_a_compressed_transformer_learns_and_its_replicas_stay_equal():
    found = run_ranks(2, text.all_of_it, timeout=120)
    assert found[0]["text"] == found[1]["text"]
    assert found[0]["text"][:2] == text_runs.CHARACTERS
    assert found[0]["losses"] == found[1]["losses"]
    begun = {before for before, _ in found[0]["losses"].values()}
    assert len(begun) == 1  # the same weights, whatever compresses
    assert begun.pop() == pytest.approx(math.log(96), rel=0.03)
    assert len({after for _, after in found[0]["losses"].values()}) == 3
    for name, (before, after) in found[0]["losses"].items():
        assert after < before - 0.5, name
    steps, seconds = found[0]["reached"]
    assert steps == 10
    assert seconds > 10 * 5e-3  # the pace
    assert found[0]["never"][0] is None
