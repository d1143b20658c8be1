"""Pictures of notebook 10: what they say is what they are given."""

import numpy as np
import pytest

from helpers.plots import local as draw
from helpers.plots.local import replicas
from tests.plots.embedded import values


def test_the_fastest_is_ringed():
    given = (1e9, 1, 1.0, 1.1), (1e9, 4, 2.0, 2.1), (1e7, 1, 9.0, 9.1), (1e7, 4, 5.0, None)
    rows = [dict(zip(("rate", "H", "predicted", "measured"), row, strict=True)) for row in given]
    (ax,) = draw.fastest(rows)
    rings = [line for line in ax.lines if line.get_markersize() == 20]
    assert sorted((line.get_xdata()[0], line.get_ydata()[0]) for line in rings) == [
        (1, 1.1),
        (1, 9.1),
    ]
    assert "10 Mbit/s, predicted" in [line.get_label() for line in ax.lines]
    (ax,) = draw.fastest([{**row, "measured": None} for row in rows])
    assert not any("measured" in line.get_label() for line in ax.lines)
    assert "measured" not in ax.figure.get_label()


def test_what_is_sent_and_its_seconds_stand_beside_the_loss():
    rows = [
        {"name": "a", "sent": 2e6, "seconds": 3.0, "loss": 0.5},
        {"name": "b", "sent": 8e6, "seconds": 9.0, "loss": 0.25},
    ]
    axes = draw.price(rows, 1.0, 1e7)
    points = [[(*line.get_xdata(), *line.get_ydata()) for line in ax.lines[:2]] for ax in axes]
    assert points == [[(2.0, 0.5), (8.0, 0.25)], [(3.0, 0.5), (9.0, 0.25)]]
    assert "10 Mbit/s" in axes[1].get_xlabel()
    faster = draw.price([{**row, "seconds": 1.1} for row in rows], 1.0, 1e9)
    assert faster[1].get_xlim() == axes[1].get_xlim(), "points move when the link changes"


def plane():
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(3, 5, 2)) @ rng.normal(size=(2, 9))
    return flat, draw.plane(
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
    data = values(replicas(plane()[1], {"a": range(2, 5, 2)}).data)
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
