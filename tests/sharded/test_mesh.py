"""Data × pipeline × tensor on one mesh equals one process; checkpoints move between meshes."""

import pytest

from helpers.sharded.mesh import Layout
from tests.mpi.runner import run_ranks
from tests.sharded import meshes, ranks


@pytest.mark.mpi
def test_eight_ranks_equal_one_process_and_their_checkpoint_loads_on_four_and_on_one(tmp_path):
    losses, _ = ranks.alone(8, 4, meshes.MODEL)
    saved = str(tmp_path / "eight")
    eight = [
        ((Layout(2, 2, 2, shard=1), 2, 2), {"save": saved}),
        ((Layout(1, 4, 2), 4, 2), {"sequence": True}),
        ((Layout(8, 1, 1, shard=1), 1, 2), {}),
    ]
    for found in run_ranks(8, meshes.several, eight):
        for run in found:
            assert run == pytest.approx(losses[:2], abs=1e-12)
    for count, layouts in ((4, [Layout(2, 1, 2, shard=1), Layout(1, 4, 1)]), (1, [Layout()])):
        again = [((layout, 1, 2), {"load": saved, "start": 2}) for layout in layouts]
        for found in run_ranks(count, meshes.several, again):
            for run in found:
                assert run == pytest.approx(losses[2:], abs=1e-11)


@pytest.mark.mpi
def test_a_checkpoint_of_another_precision_is_rounded(tmp_path):
    saved = [str(tmp_path / name) for name in ("double", "single")]
    layout = Layout(tensor=2)
    runs = [
        ((layout, 1, 2), {"save": saved[0]}),
        ((layout, 1, 2), {"load": saved[0], "start": 2, "dtype": "float32", "save": saved[1]}),
        ((layout, 1, 2), {"load": saved[0], "start": 2}),
        ((layout, 1, 1), {"load": saved[1], "start": 4}),
    ]
    for _, single, double, _ in run_ranks(2, meshes.several, runs):
        assert single == pytest.approx(double, abs=1e-4)


@pytest.mark.mpi
def test_other_numbers_of_ranks():
    losses, _ = ranks.alone(8, 2, meshes.MODEL)
    for count, layout in ((3, Layout(pipeline=3)), (2, Layout(tensor=2))):
        for found in run_ranks(count, meshes.train, layout, 2, 2):
            assert found == pytest.approx(losses, abs=1e-12)
