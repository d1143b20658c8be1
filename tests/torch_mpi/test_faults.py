"""Ranks that do different things are told so, by an exception."""

import pytest

from tests.cluster.ways import PART
from tests.mpi.runner import run_ranks
from tests.torch_mpi import faults

pytestmark = pytest.mark.mpi
PATHS = ["window", pytest.param("network", marks=PART)]


@pytest.mark.parametrize("path", PATHS)
def test_an_error_inside_the_backward_of_ddp_is_an_exception(path):
    first, second = run_ranks(2, faults.check_backward, path, timeout=60)
    assert "called all_reduce of 12 bytes of torch.float32 with SUM while rank 0" in second[0]
    assert "called barrier" in second[0]
    assert "while rank 0 called all_reduce of 4 bytes" in second[1]
    assert all(first[:2])
    assert "rank 0 of this group has left it" in second[2]
    assert "Timed out after 3 s" in second[3]
    assert not any(first[2:])


@pytest.mark.parametrize("path", PATHS)
def test_join_divides_by_the_ranks_that_still_have_a_batch(path):
    for apart in run_ranks(3, faults.check_join, path, timeout=60):
        assert max(apart) < 1e-6


@pytest.mark.parametrize("path", ["window", "network"])
def test_calls_that_differ_between_ranks_raise_on_each(path):
    names = ["dtype", "bytes' dtype", "operation", "splits", "lengths", "root", "collective"]
    first, second = run_ranks(2, faults.check_mismatches, path, names, timeout=60)
    for messages in (first, second):
        assert "all_reduce of 16 bytes of torch.int32" in messages[0]
        assert "with MAX" in messages[2]
        assert "rank 1 sends 8 bytes to rank 0, which expects 4 from it" in messages[3]
        assert "broadcast of 16 bytes of torch.int32" in messages[1]
        assert "in unequal parts" in messages[4]
        assert "torch.float32, root 0" in messages[5]
        assert "root 1" in messages[5]
        assert "all_reduce of 16 bytes" in messages[6]
        assert "called barrier" in messages[6]


def test_lists_of_unequal_parts_are_refused():
    names = ["scatter", "gather", "reduce_scatter", "all_gather"]
    first, _ = run_ranks(2, faults.check_mismatches, "window", names, timeout=60)
    for name, message in zip(names, first, strict=True):
        assert message.startswith(f"ValueError: {name} on rank 0 expects")
        assert "elements, as (" in message


@pytest.mark.parametrize("path", ["window", "network"])
def test_tensors_that_cannot_be_written_to_or_reduced_are_refused(path):
    for one, several, quantized, root in run_ranks(2, faults.check_tensors_that_are_refused, path):
        assert "a place for each element; got an expanded one, (4,) of torch.float32" in one
        assert "an expanded one" in several
        assert "got (3,) of torch.qint8" in quantized
        assert "broadcast expects a root from 0 to 1; got -1" in root
