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
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["10 Mbit/s", "1 Gbit/s"]
    exact, sign = (line for line in ax.lines if line.get_label() in sent)
    assert exact.get_xdata().round().tolist() == [1, 0]
    assert exact.get_ydata().tolist() == [2.0, 40.0]
    assert sign.get_ydata().tolist() == [3.0]
    assert not set(exact.get_xdata()) & set(sign.get_xdata())  # side by side
    marks = [*exact.get_xydata(), *sign.get_xydata()]
    assert [text.xy for text in ax.texts] == [tuple(mark) for mark in marks]
    assert [text.get_text() for text in ax.texts] == ["2", "40", "3"]  # seconds
    predicted = [line.get_ydata() for line in ax.lines if line.get_marker() == "_"]
    frames = 1514 / 1448  # headers
    seconds = [
        [steps * (0.01 + 8 * nbytes * frames / rate) for rate in rates]
        for steps, nbytes, rates in ((90, 12_500, (1e9, 1e7)), (110, 400, (1e9,)))
    ]
    assert [list(line) for line in predicted if len(line)] == [pytest.approx(s) for s in seconds]
    assert "digits" in ax.get_title() + ax.get_title(loc="left")


def test_a_knee_and_its_noise_scales_say_their_numbers():
    ax = plots.knee({16: 160, 256: 28, 4000: 17}, 16.6, 158.2)
    assert "critical batch, 158" in [line.get_label() for line in ax.lines]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["16", "256", "4000"]
    ax = plots.stretches((0, 20, 200), (45.2, 620.0), 158.2)
    assert [text.get_text() for text in ax.texts] == ["45", "620"]
    assert list(ax.lines[0].get_ydata()) == [45.2, 45.2, 620.0]
