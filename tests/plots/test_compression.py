from itertools import pairwise

import numpy as np
import pytest

from helpers.plots import compression as plots
from helpers.records import Row


def test_bits_are_those_of_the_levels():
    ax = plots.code(np.array([3.0, -4.0]), np.array([2, -3]), 3)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["0\n10", "1\n11"]
    assert "3 bits each, 7 different values" in ax.get_title(loc="left") + ax.get_title()


def test_codes_and_ticks_stand_apart():
    levels = np.full(12, -15)
    figures = plots.code(levels / 1.0, levels, 15), *plots.waits(24, np.linspace(2, 1, 24))
    for ax in figures:
        ax.figure.canvas.draw()
        boxes = [t.get_window_extent() for t in ax.get_xticklabels() if t.get_text()]
        shown = [b for b in boxes if ax.bbox.x0 - 1 <= (b.x0 + b.x1) / 2 <= ax.bbox.x1 + 1]
        assert len(shown) > 5
        assert all(a.x1 < b.x0 for a, b in pairwise(sorted(shown, key=lambda b: b.x0)))


def test_links_draw_what_got_there():
    given = {"pace": 0.01}
    rows = [
        Row("seconds", value, "s", parameters={"scheme": name, "rate": rate, "link": link,
                                               "steps": steps, **given})
        for name, rate, link, value, steps in (
            ("float32", 1e9, "1 Gbit/s", 2.0, 90),
            ("float32", 1e7, "10 Mbit/s", 40.0, 90),
            ("sign", 1e9, "1 Gbit/s", 3.0, 110),
            ("sign", 1e7, "10 Mbit/s", 9.0, None),
        )
    ]  # fmt: skip
    sent = {"float32": 12_500.0, "sign": 400.0, "absent": 1.0}
    ax = plots.links(rows, sent, "digits")
    exact, sign = (line for line in ax.lines if line.get_linestyle() == "None")
    assert exact.get_xdata().tolist() == [1e7, 1e9]
    assert sign.get_ydata().tolist() == [3.0]
    predicted = [line for line in ax.lines if len(line.get_xdata()) > 2]
    assert [line.get_label() for line in predicted] == ["float32", "sign"]
    assert predicted[0].get_linestyle() != predicted[1].get_linestyle()
    frames = 1514 / 1448  # headers
    for line, steps, nbytes in zip(predicted, (90, 110), (12_500, 400), strict=True):
        ends = [steps * (0.01 + 8 * nbytes * frames / rate) for rate in (1e7, 1e9)]
        assert line.get_ydata()[[0, -1]] == pytest.approx(ends)
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["10 Mbit/s", "1 Gbit/s"]
    assert "digits" in ax.get_title() + ax.get_title(loc="left")


def test_no_straggler_is_above_the_picture():
    even, late = np.full((5, 2), 0.015), np.array([[0.01, 0.02], [0.01, 0.3]])
    for samples in ({"drawn": even, "real": late}, {"drawn": late, "real": even}):
        for ax in plots.stragglers(samples):
            assert ax.get_ylim()[0] == 0
            assert ax.get_ylim()[1] > 300
