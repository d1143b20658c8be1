"""Data × pipeline × tensor on one mesh equals one process; checkpoints move between meshes."""

import pytest

from helpers.sharded.mesh import Layout
from tests.cluster.ways import PART
from tests.mpi.runner import run_ranks
from tests.sharded import meshes, ranks


def runs(micro, *layouts, **options):
    """How to train by each layout: two steps, or those after them if it loads."""
    return [((layout, micro, 2), options) for layout in layouts]


FOUR = runs(2, Layout(2, 1, 2, shard=1)) + runs(2, Layout(1, 2, 2), sequence=True)
EIGHT = [
    *runs(2, Layout(2, 2, 2, shard=1)),
    *runs(4, Layout(1, 4, 2), sequence=True),
    *runs(1, Layout(8, 1, 1, shard=1)),
]


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("count", "those", "others"),
    [
        (4, FOUR, {2: [Layout(1, 2, 1)], 1: [Layout()]}),
        pytest.param(
            8, EIGHT, {4: [Layout(2, 1, 2, shard=1), Layout(1, 4, 1)], 1: [Layout()]}, marks=PART
        ),
    ],
)
def test_they_equal_one_process_and_their_checkpoint_loads_on_fewer(count, those, others, tmp_path):
    losses, _ = ranks.alone(8, 4, meshes.MODEL)
    saved = str(tmp_path / "saved")
    those[0][1]["save"] = saved
    for found in run_ranks(count, meshes.several, those):
        for run in found:
            assert run == pytest.approx(losses[:2], abs=1e-12)
    for fewer, layouts in others.items():
        again = runs(1, *layouts, load=saved, start=2)
        for found in run_ranks(fewer, meshes.several, again):
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
def test_three_ranks():
    losses, _ = ranks.alone(8, 2, meshes.MODEL)
    for found in run_ranks(3, meshes.train, Layout(pipeline=3), 2, 2):
        assert found == pytest.approx(losses, abs=1e-12)
