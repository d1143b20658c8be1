"""helpers.plots.pipeline and sharded: what is drawn is what was passed."""

from dataclasses import replace

import pytest

from helpers.pipeline import Costs, families, simulate
from helpers.pipeline.model import Timeline
from helpers.plots import pipeline as draw
from helpers.plots import sharded, style
from helpers.plots.pipeline import pipelines
from helpers.plots.style import ink
from helpers.sharded import zero
from helpers.sharded.mesh import Layout
from helpers.sharded.messages import Span
from tests.plots import values


def title(ax):
    return ax.get_title("left") or ax.get_title()


@pytest.mark.parametrize("name", families.FAMILIES)
def test_each_action_is_a_box_in_its_rank_s_lane(name):
    line = simulate(families.FAMILIES[name](3, 6), Costs(update=0.5))
    ax = draw.lanes(line)
    boxes = {
        (round(p.get_y() + 0.4), round(p.get_x(), 6), round(p.get_width(), 6)) for p in ax.patches
    }
    assert boxes == {
        (box.rank, round(box.begin, 6), round(box.end - box.begin, 6)) for box in line.boxes
    }
    assert len(ax.patches) == len(line.boxes)
    assert "model, not recorded" in title(ax)
    assert f"{line.bubble:.0%} idle" in title(ax)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["rank 0", "rank 1", "rank 2"]


def test_the_second_chunk_s_boxes_are_underlined():
    ax = draw.lanes(simulate(families.interleaved(2, 4)))
    ends = [line.get_segments()[0] for line in ax.collections]
    assert len(ends) == len(ax.patches) / 2
    assert ends[0][0][0] == 2  # after the first two forward passes through the first chunk
    assert "second chunk" in [text.get_text() for text in ax.get_legend().get_texts()]


def test_a_recorded_step_says_so_and_is_in_milliseconds():
    line = simulate(families.gpipe(2, 2))
    ax = draw.lanes(Timeline(line.schedule, line.boxes, True, "s", "stages paced: 1 s"))
    assert "recorded; stages paced: 1 s" in title(ax)
    assert ax.get_xlabel() == "time [ms]"
    assert ax.figure.get_label() == "What each rank does when: GPipe"
    assert draw.lanes(line, label="Who waits?").figure.get_label() == "Who waits?"
    assert max(p.get_x() + p.get_width() for p in ax.patches) == pytest.approx(1e3 * line.span)


def test_several_steps_stand_above_one_another_on_one_scale():
    short, long = simulate(families.zero_bubble(2, 4)), simulate(families.gpipe(3, 4))
    last = draw.lanes(short, long)
    first = last.figure.axes[0]
    assert [title(ax)[:5] for ax in (first, last)] == ["zero-", "GPipe"]
    assert [len(ax.get_yticks()) for ax in (first, last)] == [2, 3]
    assert first.get_xlim() == last.get_xlim() == (0, long.span)
    said = [text.get_text() for text in last.get_legend().get_texts()]
    assert said == ["forward", "backward", "backward: inputs", "backward: weights"]


def test_all_boxes_of_a_kind_bear_a_number_or_none():
    boxes = simulate(families.gpipe(1, 2)).boxes  # F0 F1 B0 B1
    ends = (0.01, 10.0, 20.0, 30.0)
    made = [replace(box, begin=begin, end=end)
            for box, begin, end in zip(boxes, (0.0, *ends), ends, strict=False)]  # fmt: skip
    ax = draw.lanes(Timeline(families.gpipe(1, 2), tuple(made), False))
    assert [text.get_text() for text in ax.texts] == ["0", "1"]  # of the backward passes


@pytest.mark.parametrize(("micro", "said"), [(4, {"F0", "I3", "W3"}), (20, {"0", "9"})])
def test_halves_of_a_backward_pass_bear_letters_where_these_fit(micro, said):
    ax = draw.lanes(simulate(families.zero_bubble(2, micro)))
    assert said <= {text.get_text() for text in ax.texts}


def test_the_player_has_every_run_once_recorded_ones_first():
    line = simulate(families.zero_bubble(2, 3))
    recorded = Timeline(line.schedule, line.boxes, True, "s", "paced")
    data = values(pipelines([recorded, line, simulate(families.interleaved(2, 4))]).data)
    first, second = data["runs"]
    assert (first["name"], first["recorded"], first["note"]) == ("zero-bubble", True, "paced")
    assert (second["chunks"], second["recorded"]) == (2, False)
    assert len(first["boxes"]) == 2 * 3 * 3
    assert max(box[5] for box in first["boxes"]) == 1000
    kinds = {box[1] for box in first["boxes"]}
    assert [draw.NAMES["FBIWU"[kind]] for kind in sorted(kinds)] == [
        data["names"][kind] for kind in sorted(kinds)
    ]
    assert data["inks"] == [ink(colour) for colour in data["colours"]]


@pytest.mark.parametrize(("make", "part"), [(families.interleaved, 0.5), (families.zero_bubble, 1)])
def test_letters_leave_a_margin_in_their_box(make, part):
    line = simulate(make(4, 8), Costs(part, part, part))
    ax = draw.lanes(simulate(families.gpipe(4, 8)), line)  # the longer step sets the scale
    ax.figure.set_layout_engine("constrained")  # as in a notebook
    ax.figure.canvas.draw()
    assert ax.texts
    for text in ax.texts:
        at, letters = ax.transData.transform(text.get_position()), text.get_window_extent()
        (box,) = (p for p in ax.patches if p.contains_point(at))
        assert letters.width <= box.get_window_extent().width - 3 * ax.figure.dpi / 72


def test_bars_stack_to_the_bytes_of_each_stage():
    formula = [vars(zero.at_rest(stage, 4)) for stage in zero.STAGES]
    ax = sharded.stage_bytes(formula)
    tops = [0.0] * 4
    for bar in ax.patches:
        stage = round(bar.get_x() + bar.get_width() / 2)
        tops[stage] = max(tops[stage], bar.get_y() + bar.get_height())
    assert tops == pytest.approx([16, 10, 7, 4])
    assert {text.get_text() for text in ax.texts} >= {"16", "10", "7", "4"}


def test_spans_stand_where_they_were_recorded_in_two_lanes():
    done = [Span("compute", "forward 0", 0.010, 0.025), Span("network", "gather 1", 0.012, 0.020)]
    ax = sharded.spans({"in turn": (0.03, done), "prefetched": (0.02, done[:1])})
    begins = [bar.get_x() for bar in ax.patches]
    assert begins == pytest.approx([10, 12, 10])
    assert [bar.get_width() for bar in ax.patches] == pytest.approx([15, 8, 15])
    assert len({bar.get_y() for bar in ax.patches}) == 3
    assert ax.get_xlabel().endswith("[ms]")
    assert [text.get_text().strip() for text in ax.texts] == ["30 ms", "20 ms"]
    legend = [text.get_text() for text in ax.get_legend().get_texts()]
    assert legend == ["forward", "gather parameters"]


def test_every_score_of_a_causal_attention_has_one_rank():
    ax, zigzag = sharded.scores({"one": [0, 1], "two": [0, 1, 1, 0]}, 8)
    for panel in (ax, zigzag):
        assert sum(bar.get_width() for bar in panel.patches) == 36
    assert [text.get_text() for text in ax.texts] == ["10 scores", "26 scores"]
    assert [text.get_text() for text in zigzag.texts] == [f"{n} scores" for n in (3, 7, 11, 15)]


def test_a_pair_is_cut_by_columns_and_by_rows():
    ax = sharded.pair(4)
    sizes = [(patch.get_width(), patch.get_height()) for patch in ax.patches]
    assert sizes == [(3, 2), *[(1.5, 3)] * 4, *[(1.5, 2)] * 4, *[(3, 1.5)] * 4, (3, 2)]
    assert len({patch.get_facecolor() for patch in ax.patches}) == 5


def test_each_rank_of_a_mesh_keeps_its_part_and_has_its_partners():
    shown = values(sharded.mesh(Layout(2, 2, 2), 5).data)
    assert len(shown["layouts"]) == 8
    for ranks in shown["layouts"].values():  # the cards of a replica are the model, once
        kept = [(i, j) for card in ranks for i in range(*card["rows"])
                for j in range(*card["columns"])]  # fmt: skip
        copies = {kept.count(cell) for cell in kept}
        assert (len(set(kept)), len(copies)) == (16, 1)
    five = shown["layouts"]["2 × 2 × 2"][5]
    assert five["partners"] == {"4": "tensor", "7": "pipeline", "1": "data"}
    assert five["said"].startswith("Rank 5 keeps 1/4 of the model. With rank 4: add activations.")
    two = shown["layouts"]["2 × 4 × 1"][2]
    assert two["partners"] == {"1": "pipeline", "3": "pipeline", "6": "data"}
    assert "With ranks 1 and 3: pass activations." in two["said"]


@pytest.mark.browser
def test_a_click_on_a_layout_and_on_a_rank_tells_what_it_keeps(show):
    page = show(sharded.mesh(Layout(2, 2, 2), 5).data)
    said, filled = page.get_by_test_id("mesh-said"), page.locator(f"rect[fill='{style.SKY}']")
    assert (said.inner_text()[:6], filled.count()) == ("Rank 5", 32)
    page.get_by_test_id("mesh-8-1-1").click()
    page.get_by_test_id("mesh-rank-0").press("Enter")
    assert filled.count() == 128
    assert said.inner_text().endswith("With ranks 1, 2, 3, 4, 5, 6 and 7: average gradients.")


def test_keys_and_values_turn_and_later_ones_are_skipped():
    ax = sharded.turns(4)
    said = [text.get_text().split("\n") for text in ax.texts if text.get_text()]
    assert [what for _, what in said].count("merge") == 10
    assert [held for held, _ in said[12:]] == [f"$K_{r}, V_{r}$" for r in (3, 2, 1, 0)]
    assert {what for _, what in said[12:]} == {"merge"}
