"""Every way to split the model on 1 to 8 ranks: gradients of one process, messages by formula."""

import pytest

from helpers.sharded import counts
from tests.cluster.ways import PART
from tests.mpi.runner import run_ranks
from tests.sharded import splits
from tests.sharded.ranks import SMALL


@pytest.mark.mpi
@pytest.mark.parametrize("size", [1, 3, *(pytest.param(n, marks=PART) for n in (2, 6))])
def test_equal_to_one_process_and_to_the_formulas(size):
    found = run_ranks(size, splits.every_split)[0]
    for name, sequence in (("tensor", False), ("sequence", True)):
        expected = counts.tensor(SMALL, size, 2, sequence, itemsize=8)
        messages, sent = found[name]
        assert messages == {expected.messages}
        assert sum(sent) / len(sent) == pytest.approx(expected.bytes, rel=0.02)
    if size == 1:
        return
    expected = counts.ring_attention(2 * 3 * 24 // size * 5, size, itemsize=8)
    assert found["context"] == ({expected.messages}, {expected.bytes})
    assert found["top-1"][0] == {counts.experts(20, 6, size).messages}
    assert found["top-2"][0] == {counts.experts(20, 6, size, 2).messages}


@pytest.mark.mpi
@PART
@pytest.mark.parametrize("size", [4, 8])
def test_splits_of_sequences_and_experts(size):
    run_ranks(size, splits.context)
    run_ranks(size, splits.experts, 2, 0.5)


@pytest.mark.mpi
def test_ring_attention_with_unequal_lengths_is_refused_on_every_rank():
    for said in run_ranks(3, splits.unequal_lengths):
        assert "q of one shape and dtype on all ranks; got [((1, 2, 4)" in said


@pytest.mark.mpi
def test_f_and_g_swapped_give_the_right_loss_and_wrong_gradients():
    assert all(error > 0.1 for error in run_ranks(2, splits.swapped))
