"""The picture of waiting shows each gradient once, in its time, and plays without a script."""

import xml.etree.ElementTree as ElementTree

import pytest

from helpers.plots.waiting_html import waiting

SVG = "{http://www.w3.org/2000/svg}"
RECORDED = {
    "together": [[(0.0, 0.1), (0.4, 0.5)], [(0.0, 0.4), (0.4, 0.8)]],
    "alone": [[], [(0.0, 0.1), (0.1, 0.2), (0.7, 0.9)]],
}


def test_each_gradient_is_a_bar_until_the_shorter_record_ends():
    root = ElementTree.fromstring(waiting(RECORDED, late=1).data)
    bars = [bar for bar in root.iter(f"{SVG}rect") if bar.find(f"{SVG}animate") is not None]
    assert len(bars) == 7
    ends = [float(bar.get("x")) + float(bar.get("width")) for bar in bars]
    assert max(ends) == pytest.approx(880, abs=0.2)
    assert ends[-1] == pytest.approx(ends[3], abs=0.2)  # 0.9 s is cut at 0.8 s
    assert {bar.get("fill") for bar in bars[2:4]} != {bars[0].get("fill")}


def test_it_says_in_words_what_it_shows_and_has_no_script():
    svg = waiting(RECORDED).data
    label = ElementTree.fromstring(svg).get("aria-label")
    assert label == "together: 4 gradients in 0.80 s; alone: 2 gradients in 0.80 s"
    assert "<script" not in svg
    assert "rank 0: server" in svg


def test_everything_is_there_before_the_click_and_the_click_is_its_own():
    svg = waiting(RECORDED).data
    (name,) = {each.get("id") for each in ElementTree.fromstring(svg).iter() if each.get("id")}
    begins = [each.get("begin") for each in ElementTree.fromstring(svg).iter() if each.get("begin")]
    assert begins
    assert all(begin.startswith(f"{name}.click") for begin in begins)
    assert name not in waiting({"another": RECORDED["alone"]}).data


def test_a_record_without_a_gradient_is_refused():
    with pytest.raises(ValueError, match="'none' has none"):
        waiting({"none": [[], []]})
