"""Pictures of A5: who waits in an allreduce, a loop and its gradient, rows that meet in a block."""

import pytest

from helpers.plots.graph import all_have_begun, overlap
from helpers.plots.more_of_graphs import BLOCKS, KEYS, QUERIES, attention_block, scan_and_back
from helpers.plots.style import BLUE, GREEN, ORANGE


def test_an_allreduce_is_hatched_until_the_other_rank_has_begun_it():
    ranks = [
        [("matmul", "compute", 5.0, 5.002), ("8 B", "network", 5.002, 5.009)],
        [("matmul", "compute", 5.001, 5.006), ("8 B", "network", 5.006, 5.008)],
    ]
    assert all_have_begun(ranks) == [5.006]
    ax = overlap(ranks)
    hatched = [path.get_extents() for bars in ax.collections if bars.get_hatch() == "\\\\"
               for path in bars.get_paths()]  # fmt: skip
    widths = [box.width for box in hatched]
    assert widths == pytest.approx([4.0, 0.0])  # ms: from the first step's beginning
    assert hatched[0].x0 == pytest.approx(2.0)
    assert [text.get_position()[0] for text in ax.texts] == pytest.approx([7.5, 7.0])


def test_the_block_stands_where_its_queries_meet_its_keys():
    ax = attention_block()
    boxes = {
        colour: [patch for patch in ax.patches if patch.get_facecolor()[:3] == rgb]
        for colour, rgb in ((name, _rgb(name)) for name in (BLUE, ORANGE, GREEN))
    }
    (block,) = boxes[GREEN]
    assert {box.get_y() for box in boxes[BLUE]} == {block.get_y()}
    assert {box.get_x() for box in boxes[ORANGE]} == {block.get_x()}
    assert [len(boxes[colour]) for colour in (BLUE, ORANGE)] == [4, 2]  # Q, g, O, log-sum; K, V
    assert max(QUERIES, KEYS) < BLOCKS


def _rgb(colour):
    from matplotlib.colors import to_rgb

    return to_rgb(colour)


def test_a_step_back_stands_below_its_step_and_reads_the_state_before_it():
    ax = scan_and_back(4)
    at = {text.get_text(): [] for text in ax.texts}
    for text in ax.texts:
        at[text.get_text()].append(text.get_position())
    for t in range(1, 5):
        (x, top), (below, low) = at[f"step {t}"]
        ((state, middle),) = at[f"$h_{t - 1}$"]
        assert x == below > state
        assert top < middle < low
    ends = {(note.xyann, note.xy) for note in ax.texts if getattr(note, "arrow_patch", None)}
    back = sorted((a[0], b[0]) for a, b in ends if a[1] == b[1] == low)
    assert len(back) == 5
    assert all(start > end for start, end in back)  # from the last step to the first
