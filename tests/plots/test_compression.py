import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

from helpers.plots import compression as plots


def test_bits_are_those_of_the_levels():
    ax = plots.code(np.array([3.0, -4.0]), np.array([2, -3]), 3)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0 10", "1 11"]
    assert "3 bits each, 7 different codes" in ax.get_title(loc="left") + ax.get_title()


def test_exchanges_and_waits_and_batches_draw_what_they_are_given():
    ax = plots.exchanges({"a": 0.1, "b": 0.02}, {"a": 0.09, "b": 0.02}, "x")
    assert sorted(bar.get_width() for bar in ax.patches) == pytest.approx([20, 100])
    with pytest.raises(ValueError, match="same schemes"):
        plots.exchanges({"a": 1.0}, {}, "x")
    left, right = plots.waits(3, [0.3, 0.2, 0.1], {1: 0.25}, chosen=1)
    assert left.lines[0].get_ydata() == pytest.approx([300, 200, 100])
    assert right.lines[0].get_ydata() == pytest.approx([10, 10, 10])
    ax = plots.batches([("SGD", 64, 0.9), ("SGD", 256, 0.8), ("LARS", 64, 0.7)], "x")
    assert len(ax.lines) == 2
