"""A page on paper: what is folded away on the screen stands there, and nothing is cut off."""

import pytest

from helpers.paths import ROOT

pytestmark = pytest.mark.notebook
FOLDED = """<details><summary>One solution</summary><div class="highlight"><pre>{code}</pre></div>
<details><summary>And more</summary><p>within</p></details></details>"""
WIDE = """<div class="cell_output"><pre>{code}</pre></div>
<div class="table-wrapper"><table><tr>{cells}</tr></table></div>"""
PAGE = """<style>{style}</style><div class="sidebar-drawer">menu</div>
<article class="content" style="width: 600px">{body}</article>"""
SEEN = "all => all.map(one => one.checkVisibility({ contentVisibilityAuto: true }))"
FOUND = "[...document.querySelectorAll('details > :not(summary)')]"
ALL_SEEN, NONE_SEEN = f"({SEEN})({FOUND}).every(Boolean)", f"!({SEEN})({FOUND}).some(Boolean)"
# what is wider than the paper, and what of a page lies upon another
CUT = """() => [...document.querySelectorAll('.content *')].filter(one =>
    one.getBoundingClientRect().right > document.querySelector('.content').offsetWidth + 10
    || one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).overflowX !== 'visible'
).map(one => one.outerHTML.slice(0, 80))"""
UNDER = """() => {
    const [folded, next] = document.querySelectorAll('.content > *');
    const last = folded.querySelector('p').getBoundingClientRect();
    return next.getBoundingClientRect().top - last.bottom;
}"""


@pytest.fixture
def page(browser):
    folded = FOLDED.format(code="answer = 42  # " + "long " * 40)
    wide = WIDE.format(code="word" * 90, cells="<td>a_long_name_of_a_thing</td>" * 12)
    style = (ROOT / "docs" / "static" / "course.css").read_text(encoding="utf-8")
    page = browser.new_page()
    page.set_content(PAGE.format(style=style, body=folded + wide))
    yield page
    page.close()


def test_on_paper_solutions_are_open_and_nothing_is_cut(page):
    hidden = page.locator("details > :not(summary)")
    assert not any(hidden.evaluate_all(SEEN))
    assert page.evaluate(CUT)
    page.emulate_media(media="print")
    page.wait_for_function(ALL_SEEN)
    assert page.evaluate(CUT) == []
    assert page.evaluate(UNDER) >= 0, "what was folded lies upon what follows"
    assert page.locator(".sidebar-drawer").is_hidden()


def test_on_the_screen_again_they_are_folded(page):
    page.emulate_media(media="print")
    page.wait_for_function(ALL_SEEN)
    page.emulate_media(media="screen")
    page.wait_for_function(NONE_SEEN)
