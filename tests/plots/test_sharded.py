"""Pictures of a model on many ranks: they hold the numbers that they were given."""

import pytest

from helpers.plots import sharded as draw
from helpers.sharded import zero
from helpers.sharded.messages import Span


def test_bars_stack_to_the_bytes_of_each_stage_and_marks_are_what_was_counted():
    formula = [vars(zero.at_rest(stage, 4)) for stage in zero.STAGES]
    counted = [{"parameter": 4.0, "gradient": 4.0, "optimizer": 8.5 - stage} for stage in range(4)]
    ax = draw.stage_bytes(formula, counted)
    tops = [0.0] * 4
    for bar in ax.patches:
        stage = round(bar.get_x() + bar.get_width() / 2)
        tops[stage] = max(tops[stage], bar.get_y() + bar.get_height())
    assert tops == pytest.approx([16, 10, 7, 4])
    assert list(ax.lines[0].get_ydata()) == [16.5, 15.5, 14.5, 13.5]
    assert {text.get_text() for text in ax.texts} >= {"16", "10", "7", "4"}


def test_spans_stand_where_they_were_recorded_in_two_lanes():
    done = [Span("compute", "forward 0", 0.010, 0.025), Span("network", "gather 1", 0.012, 0.020)]
    ax = draw.spans([done, done[:1]], "two ranks")
    begins = [bar.get_x() for bar in ax.patches]
    assert begins == pytest.approx([10, 12, 10])
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([15, 8, 15])
    assert len({bar.get_y() for bar in ax.patches}) == 3
    assert ax.get_xlabel().endswith("[ms]")


def test_a_pair_is_cut_by_columns_and_by_rows():
    ax = draw.pair(4)
    sizes = [(patch.get_width(), patch.get_height()) for patch in ax.patches]
    assert sizes == [(3, 2), *[(1.5, 3)] * 4, *[(1.5, 2)] * 4, *[(3, 1.5)] * 4, (3, 2)]
    assert len({patch.get_facecolor() for patch in ax.patches}) == 5
