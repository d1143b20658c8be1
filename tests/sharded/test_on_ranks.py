"""A model split in every way, on real ranks: one process's gradients, messages by the formulas."""

import functools

import pytest
import torch

from helpers.models.transformer import Config
from helpers.sharded import counts, ways, zero
from helpers.sharded import runs as notebook
from helpers.sharded.mesh import Layout
from tests.cluster.ways import PART
from tests.mpi.runner import run_ranks
from tests.mpi.several import on_ranks
from tests.sharded import ranks, splits
from tests.sharded.ranks import SMALL

pytestmark = pytest.mark.mpi
STEPS, SPLIT = 3, (1, 3, 6)  # numbers of ranks that divide 6 heads
STAGES = {1: (0, 1, 2, 3), 2: (3,), 3: (0, 1, 2, 3), 4: (0, 1, 2, 3), 6: (3,), 8: (3,)}
FLOAT64 = zero.Bytes(8, 8, 16)
CONFIG = Config(vocabulary=32, context=16, layers=2, heads=4, width=16)


def everything():
    """What the notebook asks of its ranks."""
    return {
        "stages": notebook.stages(CONFIG, 8),
        "splits": ways.splits(CONFIG, 4),
        "spans": [notebook.prefetched(CONFIG, 4, prefetch, 5.0) for prefetch in (False, True)],
    }


@pytest.fixture(scope="module")
def found():
    """Return a function: what the named calls return on so many ranks, which start once."""

    @functools.cache
    def started(size: int) -> dict[str, tuple]:
        calls = {"zero": (ranks.zero, 24, STEPS, STAGES[size], size in (2, 4))}
        if size in SPLIT:
            calls["splits"] = (splits.every_split,)
        if size == 1:
            calls["refused"] = (ranks.refusals,)
        if size == 2:
            calls["notebook"] = (everything,)
        if size == 3:
            calls["unequal"] = (splits.unequal_lengths,)
            calls["mesh"] = (ranks.trained, Layout(pipeline=3), 2, 2)
        return dict(zip(calls, on_ranks(size, *calls.values()), strict=True))

    return started


@pytest.mark.parametrize("size", [1, 3, pytest.param(6, marks=PART)])
def test_equal_to_one_process_and_to_the_formulas(found, size):
    split = found(size)["splits"][0]
    for name, sequence in (("tensor", False), ("sequence", True)):
        expected = counts.tensor(SMALL, size, 2, sequence, itemsize=8)
        messages, sent = split[name]
        assert messages == {expected.messages}
        assert sum(sent) / len(sent) == pytest.approx(expected.bytes, rel=0.02)
    if size == 1:
        return
    expected = counts.ring_attention(2 * 3 * 24 // size * 5, size, itemsize=8)
    assert split["context"] == ({expected.messages}, {expected.bytes})
    assert split["top-1"][0] == {counts.experts(20, 6, size).messages}
    assert split["top-2"][0] == {counts.experts(20, 6, size, 2).messages}


def test_ring_attention_with_unequal_lengths_is_refused_on_every_rank(found):
    for said in found(3)["unequal"]:
        assert "q of one shape and dtype on all ranks; got [((1, 2, 4)" in said


@pytest.mark.parametrize("size", [1, 2, 3, *(pytest.param(n, marks=PART) for n in (4, 6, 8))])
def test_every_stage_of_zero_equals_one_process(found, size):
    losses, parameters = ranks.alone(ranks.tokens(24, seed=step) for step in range(STEPS))
    results = found(size)["zero"]
    for stage in STAGES[size]:
        for rank, one in enumerate(result[stage] for result in results):
            assert one["losses"] == pytest.approx(losses, abs=1e-12)
            for name, value in parameters.items():
                # Adam divides by the root of tiny second moments: 1e-12 of gradients grows there
                close = functools.partial(torch.testing.assert_close, rtol=0, atol=1e-10)
                close(one["whole"][name], value.flatten())
            each = zero.at_rest(stage, size, FLOAT64)
            total, slack = one["parameters"], 8 * one["units"]  # a rest of one in each unit
            for what in ("parameter", "gradient"):
                expected = pytest.approx(getattr(each, what) * total, abs=slack)
                assert one["held"][what] == expected, (stage, rank, what)
            expected = pytest.approx(each.optimizer * total, abs=2 * slack)
            assert one["held"]["optimizer"] == expected
            if stage == 3 and size > 1:
                assert one["peak"] < (FLOAT64.parameter + FLOAT64.gradient) * total
        trace = results[0][stage]
        if size > 1:
            messages = STEPS * zero.messages(stage, size, trace["units"])
            assert set(trace["messages"].values()) == {messages}
            sent = zero.sent(stage, size, trace["parameters"], 8) * STEPS
            assert sum(trace["bytes"].values()) == pytest.approx(size * sent)
        assert not trace["unmatched"]


def test_what_does_not_fit_is_refused(found):
    assert found(1)["refused"] == (None,)


def test_what_the_notebook_asks_of_its_ranks(found):
    told = found(2)["notebook"][0]
    losses = [stage["loss"] for stage in told["stages"]]
    assert losses == pytest.approx([losses[0]] * 4, abs=1e-5)
    for number, stage in enumerate(told["stages"]):
        total = sum(stage["held"].values())
        expected = zero.at_rest(number, 2).total * stage["parameters"]
        assert total == pytest.approx(expected, rel=0.01)
        assert stage["messages"] == zero.messages(number, 2, stage["units"])
    for name, way in told["splits"].items():
        assert way["messages"] == way["formula"].messages, name
        if "experts" not in name:  # their bytes follow the gate
            assert way["bytes"] == pytest.approx(way["formula"].bytes, rel=0.02), name
        assert way["waited"] > 0
    for took, spans in told["spans"]:
        names = [span.name for span in spans]
        assert took > 8 * 5e-3
        assert sum(name.startswith("gather") for name in names) == 2 * CONFIG.pieces
        assert sum(name.startswith("reduce") for name in names) == CONFIG.pieces


# --------------------------------------------------- data × pipeline × tensor on one mesh


def runs(micro, *layouts, **options):
    """How to train by each layout: two steps, or those after them if it loads."""
    return [((layout, micro, 2), options) for layout in layouts]


FOUR = runs(2, Layout(2, 1, 2, shard=1)) + runs(2, Layout(1, 2, 2))
EIGHT = [
    *runs(2, Layout(2, 2, 2, shard=1)),
    *runs(4, Layout(1, 4, 2)),
    *runs(1, Layout(8, 1, 1, shard=1)),
]


@pytest.mark.parametrize(
    ("count", "those", "others"),
    [
        (4, FOUR, {2: [Layout(1, 2, 1)]}),
        pytest.param(
            8, EIGHT, {4: [Layout(2, 1, 2, shard=1), Layout(1, 4, 1)], 1: [Layout()]}, marks=PART
        ),
    ],
)
def test_they_equal_one_process_and_their_checkpoint_loads_on_fewer(count, those, others, tmp_path):
    losses = ranks.alone_on_text(4)
    saved = str(tmp_path / "saved")
    those[0][1]["save"] = saved
    for found in run_ranks(count, ranks.several, those):
        for run in found:
            assert run == pytest.approx(losses[:2], abs=1e-12)
    for fewer, layouts in others.items():
        again = runs(1, *layouts, load=saved, begin=2)
        for found in run_ranks(fewer, ranks.several, again):
            for run in found:
                assert run == pytest.approx(losses[2:], abs=1e-11)


def test_a_checkpoint_of_another_precision_is_rounded(tmp_path):
    saved = [str(tmp_path / name) for name in ("double", "single")]
    layout = Layout(tensor=2)
    runs = [
        ((layout, 1, 2), {"save": saved[0]}),
        ((layout, 1, 2), {"load": saved[0], "begin": 2, "double": False, "save": saved[1]}),
        ((layout, 1, 2), {"load": saved[0], "begin": 2}),
        ((layout, 1, 1), {"load": saved[1], "begin": 4}),
    ]
    for _, single, double, _ in run_ranks(2, ranks.several, runs):
        assert single == pytest.approx(double, abs=1e-4)


def test_a_mesh_of_three_ranks(found):
    losses = ranks.alone_on_text(2)
    for told in found(3)["mesh"]:
        assert told == pytest.approx(losses, abs=1e-12)
