"""helpers.plots.costs, and a state of helpers.plots.animation: what is drawn is what was given."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from helpers.collectives.schedule import model
from helpers.plots import costs
from helpers.plots.animation import draw_state
from helpers.plots.style import colour


def test_measured_and_predicted_share_a_colour(ax):
    sizes = [10, 100]
    costs.times_by_size(sizes, {"ring": [1, 2], "MPI": [3, 4]}, {"ring": [1.5, 2.5]}, ax)
    predicted, measured, other = ax.lines
    assert measured.get_color() == predicted.get_color() != other.get_color()
    assert (measured.get_linestyle(), predicted.get_linestyle()) == ("None", "--")
    assert np.array_equal(predicted.get_ydata(), [1.5, 2.5])
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["ring", "MPI"]
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert "bytes" in ax.get_xlabel()
    assert "[s]" in ax.get_ylabel()


def test_an_algorithm_looks_the_same_beside_other_rivals(ax):
    costs.times_by_size([1, 2], {"ring": [1, 2], "your ring": [1, 2], "x": [1, 2]}, ax=ax)
    first = [(line.get_color(), line.get_marker()) for line in ax.lines]
    costs.times_by_ranks([1, 2], {"tree": [1, 2], "flat ring": [1, 2]}, ax=ax)
    assert (ax.lines[4].get_color(), ax.lines[4].get_marker()) == first[0] == first[1]
    assert first[2] not in (first[0], (ax.lines[3].get_color(), ax.lines[3].get_marker()))


def test_predictions_differ_in_more_than_colour(ax):
    both = {"ring": [1, 2], "tree": [3, 4], "chain": [5, 6]}
    costs.times_by_size([10, 100], both, both, ax)
    patterns = [str(line._unscaled_dash_pattern) for line in ax.lines[::2]]
    assert len(set(patterns)) == 3


def test_equal_times_stand_side_by_side_beside_lines(ax):
    both = {"ring": [1, 2], "tree": [1, 2], "chain": [1, 2]}
    costs.times_by_size([10, 100], both, both, ax)
    ring, tree, chain = (line.get_xdata() for line in ax.lines[1::2])
    assert list(tree) == [10, 100]
    assert all(ring < tree)
    assert all(tree < chain)


def test_a_prediction_at_many_sizes_is_drawn_at_those(ax):
    many = costs.fine([10, 1000])
    costs.times_by_size([10, 1000], {"ring": [1, 2]}, {"ring": [3.0] * len(many)}, ax, at=many)
    predicted, measured = ax.lines
    assert measured.get_xdata().tolist() == [10, 1000]
    assert predicted.get_xdata().tolist() == many
    assert many[0] == 10
    assert many[-1] == 1000
    assert len(many) > 50
    assert many == sorted(set(many))


def test_the_legend_leaves_measured_times_free(ax):
    costs.times_by_size([10, 100], {"tree": [1, 2], "ring": [2, 1]}, ax=ax)
    ax.figure.canvas.draw()
    assert ax.get_legend().get_window_extent().x0 >= ax.get_window_extent().x1


def stripes(ax) -> list[str]:
    grey = ("#f1f1f1",)
    return [to_hex(p.get_facecolor()) for p in ax.patches if p.get_fill()
            and to_hex(p.get_facecolor()) not in grey]  # fmt: skip


def test_state_before_the_first_step_has_one_stripe_a_chunk(ax):
    draw_state(model("ring", 3), 0, ax=ax)
    assert stripes(ax) == [to_hex(colour(rank)) for rank in range(3) for _ in range(3)]


@pytest.mark.parametrize("ring", [False, True])
@pytest.mark.parametrize(("step", "part", "count"), [(6, 0, 4 * 4 * 4), (0, 0.5, 4 * 4 + 4)])
def test_what_has_just_come_or_is_on_its_way_is_framed(ax, step, part, count, ring):
    draw_state(model("ring", 4), step, part, ax, ring)
    assert len(stripes(ax)) == count
    framed = [p for p in ax.patches if not p.get_fill() and p.get_linestyle() not in ("-", "solid")]
    assert len(framed) == 4


@pytest.mark.parametrize(("step", "part"), [(-1, 0), (7, 0), (6, 0.5)])
def test_steps_that_are_not_there(ax, step, part):
    with pytest.raises(ValueError, match=f"0 to 6; got step={step}, part={part}"):
        draw_state(model("ring", 4), step, part, ax)


@pytest.mark.parametrize(("x", "side"), [(2e3, "left"), (5e5, "right")])
def test_the_text_beside_a_crossing_stays_in_the_picture(ax, x, side):
    ax.set(xscale="log", xlim=(1e3, 1e6))
    costs.crossing(ax, x, "here")
    assert [text.get_ha() for text in ax.texts] == [side]
