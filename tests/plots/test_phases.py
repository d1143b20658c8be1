"""The picture of a step whose ranks hand results on: what waits is hatched, to the end."""

import pytest

from helpers.plots.phases import phases, spans_of, waits

STEP = (
    [("begins", 7.0), ("forward", 7.002), ("waits", 7.005), ("backward", 7.01)],
    [("begins", 6.9), ("waits", 7.003), ("forward", 7.0035), ("backward", 7.004)],
)


def test_who_has_ended_waits_until_rank_0_has():
    first, second = spans_of(STEP)
    assert [what for what, _, _ in first] == ["forward", "waits", "backward"]
    assert second[0] == ("waits", 0.0, pytest.approx(0.003))  # what was before is not of this step
    assert second[-1] == ("waits", pytest.approx(0.004), pytest.approx(0.01))
    assert waits(STEP) == pytest.approx([0.3, 0.9])


def test_arrows_run_from_the_end_of_a_phase_to_the_beginning_of_another():
    ax = phases(STEP, [("h", (0, 0), (1, 1)), ("dh", (1, 2), (0, 2))])
    hatched = [round(bar.get_width(), 3) for bar in ax.patches if bar.get_hatch()]
    assert hatched == [3.0, 3.0, 6.0]
    ends = [(text.xyann[0], text.xy[0]) for text in ax.texts if not text.get_text()]
    assert ends == [pytest.approx((2.0, 3.0)), pytest.approx((4.0, 5.0))]
    assert [text.get_text() for text in ax.texts if text.get_text()] == ["h", "dh"]
