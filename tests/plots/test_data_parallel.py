from dataclasses import replace

import matplotlib
import pytest

from helpers.data_parallel.theory.time_model import Point
from helpers.plots import data_parallel as plots
from helpers.plots import style
from tests.plots.test_numbers import history


def test_four_losses_leave_the_panels_their_width():
    names = ["synchronous, mpi", "one process", "synchronous, server", "asynchronous"]
    with matplotlib.rc_context():
        style.use()  # as in a notebook: its figures make room for what stands beside the panels
        axes = plots.losses([replace(history(30, 120), scheme=name) for name in names])
        figure = axes[0].figure
        figure.canvas.draw()
    widths = [ax.get_position().width for ax in axes]
    assert min(widths) > 0.38
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == names
    box = legend.get_window_extent()
    assert not any(box.overlaps(ax.get_tightbbox()) for ax in axes)
    assert figure.bbox.width >= box.x1


def test_crossing_draws_more_ranks_than_cores_open():
    points = [
        Point(r, b, 1e-3 * b, 1e-3 * b, 2e-3, 1e-3 * b + 2e-3) for r in (2, 4) for b in (1, 8)
    ]
    left, right = plots.crossing(points, cores=2, predicted=3)
    assert [line.get_markerfacecolor() == "white" for line in left.lines[:2]] == [False, True]
    assert left.lines[0].get_ydata().tolist() == pytest.approx([2.0, 0.25])
    assert left.lines[1].get_ydata().tolist() == pytest.approx([2 / 3, 0.25 / 3])
    assert left.lines[2].get_xdata() == [3, 3]
    assert right.lines[0].get_ydata().tolist() == pytest.approx([2 / 3, 1.6])
