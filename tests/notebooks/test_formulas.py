"""Formulas in pages: exponents stand where they belong, also where no font for formulas is."""

import re

import pytest

from helpers.paths import ROOT
from tools.site.faults import faults
from tools.site.formulas import mathml
from tools.site.rendering import APART

STYLE = ROOT / "docs" / "static" / "formulas.css"
HEIGHTS = """() => [...document.querySelectorAll("msup")].map(power => {
    const [base, exponent] = [...power.children].map(part => part.getBoundingClientRect());
    return [exponent.bottom - base.top, base.height, exponent.height];
})"""


@pytest.fixture(scope="module")
def written():
    style = f"{STYLE.read_text('utf-8')}math {{ font-size: 1.1em; }}"
    within, alone = mathml("k^2 + 1", display=False), mathml(r"Q = n^{2} \sqrt{m}", display=True)
    return f"<!doctype html><style>{style}</style><p>In a line {within}, and alone:</p>{alone}"


def test_a_page_with_the_font_in_it_fetches_nothing(written, tmp_path):
    (tmp_path / "heights.html").write_text(written)
    assert faults(tmp_path) == []


@pytest.mark.parametrize("sized", ["math { font-size: 1.1em; }", "math { font-size: 3em; }"])
def test_exponents_stand_beside_what_they_belong_to(written, browser, sized):
    alone = written.replace("math { font-size: 1.1em; }", sized)
    alone = re.sub(r'"[^"]* Math[^"]*", ', "", alone)  # as on a machine that has none of them
    alone = alone.replace(", math; }", ", serif; }").replace("font-family: math;", "")
    tab = browser.new_page()
    tab.set_content(alone)
    tab.evaluate("document.fonts.ready")
    found = tab.evaluate(HEIGHTS)
    tab.close()
    assert len(found) == 2
    for overlap, base, exponent in found:
        assert 0.2 * base < overlap < base, "the exponent floats above its base, or stands too low"
        assert exponent <= base


def test_a_number_and_its_unit_stay_on_one_line():
    assert APART.sub("~", "65 000 B, 9 MB/s in 5 s, 2 steps") == "65~000~B, 9~MB/s in 5~s, 2 steps"
