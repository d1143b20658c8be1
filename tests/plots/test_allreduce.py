"""helpers.plots.allreduce: what notebook 08 draws of its model."""

import pytest

from helpers.collectives.cost import Link, Machine
from helpers.plots import allreduce
from helpers.plots.description import describe

SIZES = [1024, 4096]


def test_the_model_off_by_a_factor_is_drawn_and_returned():
    models = {"ring": lambda K: 2.0, "recursive_doubling": lambda K: K / 1024}
    measured = {"ring": [2.0, 8.0], "recursive_doubling": [0.1, 4.0], "MPI_Allreduce": [1.0, 1.0]}
    ax, ratios = allreduce.off_by_size(SIZES, measured, models)
    assert ratios == {"ring": [1.0, 4.0], "recursive_doubling": [0.1, 1.0]}
    said = describe(ax.figure)
    assert 'Line "ring": from 1 at 1024 to 4 at 4096' in said
    assert 'Line "recursive doubling": from 0.1 at 1024 to 1 at 4096' in said
    low, high = ax.get_ylim()
    assert low < 0.1
    assert high > 4


def test_the_band_is_seen_where_the_model_is_right():
    ax, _ = allreduce.off_by_size(SIZES, {"ring": [1.0, 1.0]}, {"ring": lambda K: 1.0})
    low, high = ax.get_ylim()
    assert low < 0.5 < 2 < high


def test_a_model_is_drawn_at_many_sizes():
    ax = allreduce.with_model(SIZES, {"ring": [1.0, 2.0]}, {"ring": lambda K: K}, lines="fitted")
    line, marks = ax.lines
    assert line.get_xdata().tolist() == line.get_ydata().tolist()
    assert len(line.get_xdata()) > 50
    assert marks.get_ydata().tolist() == [1.0, 2.0]
    assert "lines: fitted" in ax.get_legend().get_title().get_text()


def test_bytes_and_steps_have_a_panel_each():
    left, _ = allreduce.bytes_and_steps([2, 4], [1.0, 1.5], {"ring": [2, 6], "tree": [2, 4]})
    said = describe(left.figure)
    assert "Line: from 1 at 2 to 1.5 at 4" in said
    assert 'Line "tree": from 2 at 2 to 4 at 4' in said


def test_four_ways_on_growing_machines_by_hand():
    link = Link("both", 1.0, 0.0)
    axes = allreduce.growing([Machine(n, 2, link, link) for n in (1, 8)], {"1 B": 1, "9 B": 9})
    assert [ax.get_title() for ax in axes] == ["K = 1 B", "K = 9 B"]
    last = {line.get_label(): line.get_ydata()[-1] for line in axes[0].lines}
    assert list(last.values()) == [30, 8, 2 + 14, 2 + 6]


@pytest.mark.parametrize(
    ("one", "said"), [([1, 1], "1 KB, 4 KB"), ([1, 3], "1 KB"), ([2, 2], "no size")]
)
def test_where_one_is_faster(one, said):
    assert allreduce.where_faster(SIZES, one, [2, 2]) == said


def test_messages_that_leave_a_host_are_counted():
    block, cyclic = allreduce.ring_over_hosts({"block": (0, 0, 1, 1), "cyclic": (0, 1, 0, 1)})
    assert block.get_title("center") == "block: each host sends 1"
    assert cyclic.get_title("center") == "cyclic: each host sends 2"
    assert [text.get_text() for text in block.texts if "rank" in text.get_text()][3] == "rank 3"
