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
    ax = draw.spans({"in turn": (0.03, done), "prefetched": (0.02, done[:1])})
    begins = [bar.get_x() for bar in ax.patches]
    assert begins == pytest.approx([10, 12, 10])
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([15, 8, 15])
    assert len({bar.get_y() for bar in ax.patches}) == 3
    assert ax.get_xlabel().endswith("[ms]")
    assert [text.get_text().strip() for text in ax.texts] == ["30 ms", "20 ms"]
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["forward", "gather parameters"]


def test_every_score_of_a_causal_attention_has_one_rank():
    ax, zigzag = draw.scores({"one": [0, 1], "two": [0, 1, 1, 0]}, 8)
    for panel in (ax, zigzag):
        assert sum(bar.get_width() for bar in panel.patches) == 36
    assert [text.get_text() for text in ax.texts] == ["10 scores", "26 scores"]
    assert [text.get_text() for text in zigzag.texts] == [f"{n} scores" for n in (3, 7, 11, 15)]


def test_a_pair_is_cut_by_columns_and_by_rows():
    ax = draw.pair(4)
    sizes = [(patch.get_width(), patch.get_height()) for patch in ax.patches]
    assert sizes == [(3, 2), *[(1.5, 3)] * 4, *[(1.5, 2)] * 4, *[(3, 1.5)] * 4, (3, 2)]
    assert len({patch.get_facecolor() for patch in ax.patches}) == 5
