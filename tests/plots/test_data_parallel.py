"""Pictures of replicas: what they say is what they are given."""

from dataclasses import replace

import matplotlib
import numpy as np
import pytest

from helpers.data_parallel.theory.time_model import Point
from helpers.plots import data_parallel as plots
from helpers.plots import local, style
from tests.plots import values
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
    (ring,) = left.lines[3:-1]  # of two replicas; four pay from the smallest batch on
    assert ring.get_xdata() == pytest.approx([2.0])
    assert {"your B = 3", "ratio 1 at B = 2"} == {text.get_text() for text in left.texts}
    assert right.lines[0].get_ydata().tolist() == pytest.approx([2 / 3, 1.6])


def test_the_fastest_is_ringed():
    given = (1e9, 1, 1.0, 1.1), (1e9, 4, 2.0, 2.1), (1e7, 1, 9.0, 9.1), (1e7, 4, 5.0, None)
    rows = [dict(zip(("rate", "H", "predicted", "measured"), row, strict=True)) for row in given]
    (ax,) = local.fastest(rows)
    rings = [line for line in ax.lines if line.get_markersize() == 20]
    assert sorted((line.get_xdata()[0], line.get_ydata()[0]) for line in rings) == [
        (1, 1.1),
        (4, 5.0),  # by the formula: not every H was measured on this link
    ]
    assert "10 Mbit/s, predicted" in [line.get_label() for line in ax.lines]
    (ax,) = local.fastest([{**row, "measured": None} for row in rows])
    assert not any("measured" in line.get_label() for line in ax.lines)
    assert "measured" not in ax.figure.get_label()


def test_what_is_sent_and_its_seconds_stand_beside_the_loss():
    rows = [
        {"name": "a", "sent": 2e6, "seconds": 3.0, "loss": 0.5},
        {"name": "b", "sent": 8e6, "seconds": 9.0, "loss": 0.25},
    ]
    axes = local.price(rows, 1.0, 1e7)
    points = [[(*line.get_xdata(), *line.get_ydata()) for line in ax.lines[:2]] for ax in axes]
    assert points == [[(2.0, 0.5), (8.0, 0.25)], [(3.0, 0.5), (9.0, 0.25)]]
    assert "10 Mbit/s" in axes[1].get_xlabel()
    faster = local.price([{**row, "seconds": 1.1} for row in rows], 1.0, 1e9)
    assert faster[1].get_xlim() == axes[1].get_xlim(), "points move when the link changes"


def plane():
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(3, 5, 2)) @ rng.normal(size=(2, 9))
    return flat, local.plane(
        {"a": flat, "b": flat[:, :3]}, lambda v: float(v @ v) + 1e-3, cells=(6, 4)
    )


def test_the_plane_keeps_what_lies_in_it():
    flat, found = plane()
    on_it = np.array(found["paths"]["a"])
    far = np.linalg.norm(flat[0, 0] - flat[2, 4])
    assert np.linalg.norm(on_it[0, 0] - on_it[2, 4]) == pytest.approx(far)
    assert np.shape(found["loss"]) == (4, 6)
    assert found["x"][0] < on_it[..., 0].min()
    assert found["y"][-1] > on_it[..., 1].max()


def test_the_page_holds_every_path():
    data = values(local.replicas(plane()[1], {"a": range(2, 5, 2)}).data)
    assert {name: np.shape(run) for name, run in data["paths"].items()} == {
        "a": (3, 5, 2),
        "b": (3, 3, 2),
    }
    assert data["met"] == {"a": [2, 4]}
    loss, levels = plane()[1]["loss"], [line["level"] for line in data["lines"]]
    assert levels == sorted(levels)
    assert np.min(loss) < levels[0]
    assert levels[-1] < np.max(loss)
    assert len(data["bands"]) > len(levels)


def test_losses_over_time_share_a_scale_that_holds_all_links():
    links = {
        "100 Mbit/s": {"H = 1": ([0, 1.0], [2.0, 0.5])},
        "10 Mbit/s": {"H = 1": ([0, 5.0], [2.0, 0.5])},
    }
    fast, slow = local.by_time(links, 0.5)
    assert [ax.get_title() for ax in (fast, slow)] == list(links)
    assert fast.get_xlim() == slow.get_xlim()
    assert slow.get_xlim()[1] >= 5
    assert fast.get_xlim()[0] == fast.get_ylim()[0] == 0
    assert (*slow.lines[0].get_xdata(), *slow.lines[0].get_ydata()) == (0, 5.0, 2.0, 0.5)
