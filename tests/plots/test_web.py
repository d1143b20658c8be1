"""helpers.plots.web: pictures that do not know of each other, the player, keys, and the wheel."""

import re

import numpy as np
import pytest

from helpers.collectives.schedule import model
from helpers.pagerank.graphs import random_links
from helpers.plots.animation import animate
from helpers.plots.neighbourhood import neighbourhood
from helpers.plots.roofline import interactive
from helpers.plots.web.page import HERE, bundle, embed
from helpers.roofline import Point
from tests.plots import values

PEAKS, BANDS = {"peak": 1e11}, {"memory": 2e10, "L1": 4e11}
LOADS = "window.loads = (window.loads || 0) + 1"


def roofline(name: str) -> str:
    return interactive(PEAKS, BANDS, [Point(name, 2e6, 8e6, 1e-3)]).data


def around(seed: int) -> str:
    matrix = random_links(40, 0.1, seed=seed).incoming.T.tocsr()
    scores = np.arange(1, 41) / 820
    return neighbourhood(matrix, [f"n{i}" for i in range(40)], scores, centre=3).data


@pytest.mark.parametrize("data", [{"a": 'it\'s <b> & "c" </script> <!-- ü'}, [1.5, None], "'"])
def test_data_arrive_as_they_were(data):
    html = embed("accesses", data).data
    assert values(html) == data
    assert html.count("</script>") == 1


def test_a_bundle_holds_each_module_once_and_before_what_needs_it():
    text = bundle("collective-animation.js")
    assert text.count("function player(") == text.count("function draw(") == 1
    assert (
        text.index("function draw(")
        < text.index("function player(")
        < text.index("function start(")
    )
    assert "import " not in text.replace("// ", "")
    assert "\nexport " not in text


def test_before_the_script_runs_a_sentence_says_what_to_do():
    assert "in JupyterLab, run this cell" in embed("accesses", 1).data
    assert "in JupyterLab, run this cell" not in roofline("dot")


@pytest.mark.parametrize("sheet", sorted(HERE.glob("*.css")), ids=lambda path: path.stem)
def test_styles_reach_nothing_but_their_own_pictures(sheet):
    own = ".picture " if sheet.stem == "page" else f".{sheet.stem} "
    rules = re.sub(r"\{[^}]*\}", "\n", sheet.read_text("utf-8")).split("\n")
    selectors = [one.strip() + " " for rule in rules for one in rule.split(",") if rule.strip()]
    assert selectors
    assert [one for one in selectors if not one.startswith(own)] == []


def fill_in(picture, name: str, *numbers: str) -> None:
    for field, value in zip(("name", "flop", "bytes", "seconds"), (name, *numbers), strict=True):
        picture.get_by_test_id(f"roofline-{field}").fill(value)
    picture.get_by_test_id("roofline-add").click()


@pytest.mark.browser
def test_a_kernel_appears_in_the_roofline_to_which_it_was_added(show):
    page = show(2 * roofline("dot"))
    one, other = (page.get_by_test_id("roofline").nth(i) for i in (0, 1))
    fill_in(other, "mine", "8e6", "4e6", "1e-3")
    assert [one.locator("circle").count(), other.locator("circle").count()] == [3, 4]
    said = "mine: 2.00 flop/byte, 8.00 Gflop/s, 20 % of its roof"
    assert other.get_by_test_id("roofline-said").inner_text() == said
    assert one.get_by_test_id("roofline-said").inner_text() == ""
    fill_in(one, "mine", "0", "4e6", "1e-3")
    assert "above 0" in one.get_by_test_id("roofline-said").inner_text()
    assert one.locator("circle").count() == 3


CROSSED = """() => {
  const boxes = (kind) => [...document.querySelectorAll(`svg ${kind}`)].map((e) => e.getBBox());
  const meet = (a, b) =>
    a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
  const names = boxes("text"), circles = boxes("circle");
  const all = [...names, ...circles];
  const pairs = names.flatMap((name, i) => all.map((other, j) => [name, other, i, j]));
  const within = (b) => -500 < b.x && b.x + b.width < 500 && -330 < b.y && b.y + b.height < 330;
  return {
    met: pairs.filter(([a, b, i, j]) => j !== i && j !== i + names.length && meet(a, b)).length,
    out: all.filter((box) => !within(box)).length,
  };
}"""


@pytest.mark.browser
def test_no_name_lies_on_another_or_on_a_circle_or_beyond_the_frame(show):
    matrix = random_links(400, 0.02, seed=1).incoming.T.tocsr()
    names = [f"python3-package{i}"[: 6 + i % 12] for i in range(400)]
    scores = 1 / np.arange(1, 401)  # few are large, as ranks are
    page = show(neighbourhood(matrix, names, scores / scores.sum(), centre=3).data)
    assert page.locator("svg text").count() == 28
    assert page.evaluate(CROSSED) == {"met": 0, "out": 0}


@pytest.mark.browser
def test_the_view_has_limits_and_names_keep_their_size(show):
    page = show(around(2))
    svg, name = page.locator("svg"), page.locator("svg text").first
    whole, high = svg.get_attribute("viewBox"), name.bounding_box()["height"]
    closer, farther = (page.get_by_test_id(f"neighbourhood-{way}") for way in ("closer", "farther"))
    often = "(button) => { for (let k = 0; k < 30; k++) button.click(); }"
    farther.evaluate(often)
    assert svg.get_attribute("viewBox") == whole
    assert farther.get_attribute("aria-disabled") == "true"
    page.mouse.move(500, 300)
    page.mouse.down()
    page.mouse.move(100, 900)
    page.mouse.up()
    assert svg.get_attribute("viewBox") == whole  # nothing to see beyond it
    closer.click(click_count=3)
    assert name.bounding_box()["height"] == pytest.approx(high, rel=0.1)
    closer.evaluate(often)
    width = page.evaluate("document.querySelector('svg').viewBox.baseVal.width")
    assert 50 < width < 200
    assert closer.get_attribute("aria-disabled") == "true"
    page.get_by_test_id("neighbourhood-all").click()
    assert svg.get_attribute("viewBox") == whole


@pytest.mark.browser
def test_the_wheel_scrolls_the_page_and_with_ctrl_it_zooms(show):
    page = show(around(2) + "<div style='height:3000px'></div>")
    svg = page.locator("svg")
    whole = svg.get_attribute("viewBox")
    svg.hover()
    page.mouse.wheel(0, 200)
    page.wait_for_function("scrollY > 100")
    assert svg.get_attribute("viewBox") == whole
    svg.hover()
    page.keyboard.down("Control")
    page.mouse.wheel(0, -100)
    page.wait_for_function("document.querySelector('svg').viewBox.baseVal.width < 1000")


@pytest.mark.browser
def test_nodes_and_marks_are_reached_by_keys(show):
    page = show(around(2) + roofline("dot & co"))
    page.get_by_test_id("neighbourhood-all").focus()
    page.keyboard.press("Tab")
    said = page.get_by_test_id("neighbourhood-said")
    assert said.inner_text().startswith("n3: ")
    page.get_by_test_id("neighbourhood-closer").click(click_count=3)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("End")
    last = page.locator("[data-testid=neighbourhood] circle").last
    assert said.inner_text() == last.text_content()
    frame, spot = (
        page.locator("[data-testid=neighbourhood] svg").bounding_box(),
        last.bounding_box(),
    )
    assert frame["x"] < spot["x"] + spot["width"] / 2 < frame["x"] + frame["width"]
    assert frame["y"] < spot["y"] + spot["height"] / 2 < frame["y"] + frame["height"]
    page.keyboard.press("Tab")  # one stop for all nodes: the next is the roofline
    page.keyboard.press("End")
    assert page.get_by_test_id("roofline-said").inner_text().startswith("dot & co: 0.25 flop/byte")


@pytest.mark.browser
def test_a_kind_is_loaded_once_and_every_picture_begins_once(show):
    html = animate(model("ring", 3)).data
    counted = html.replace('"use strict";', f'"use strict"; {LOADS};')
    assert counted != html
    page = show(counted * 3)
    assert page.evaluate("loads") == 1
    assert page.get_by_test_id("animation-play").count() == 3
    assert len(set(page.get_by_test_id("animation-frame").all_inner_texts())) == 1
    page.get_by_test_id("animation-step").last.click()
    # a cell that runs again: its output goes, the same comes, as JupyterLab does it
    page.evaluate(
        """() => {
            const host = document.querySelector('[data-testid=animation]');
            const old = host.nextElementSibling;
            const picture = host.cloneNode(false), script = document.createElement('script');
            script.textContent = old.textContent;
            host.replaceWith(picture);
            old.replaceWith(script);
        }"""
    )
    assert page.evaluate("loads") == 1
    page.get_by_test_id("animation-step").first.click()
    frames = page.get_by_test_id("animation-frame").all_inner_texts()
    assert frames == ["step 1 of 4", "step 0 of 4", "step 1 of 4"]


PLAYER = """
    (() => {{
    {modules}
    window.drawn = [];
    const root = document.querySelector('main');
    window.control = player(root, {{
        steps: 3, seconds: .4, moving: .2, name: 'a test',
        draw: (step, part) => drawn.push([step, part]), label: (step) => `now ${{step}}`,
    }});
    }})();
"""


def with_player(page):
    page.set_content("<main><input data-testid='own'></main><input>")
    page.add_script_tag(content=PLAYER.format(modules=bundle("player.js")))
    return page


def frame(page) -> str:
    return page.get_by_test_id("player-frame").get_attribute("data-frame")


@pytest.mark.browser
def test_the_player_is_worked_by_keys_alone(show):
    page = with_player(show(""))
    page.get_by_test_id("player-first").focus()
    for key, at in [("ArrowRight", "1"), ("End", "3"), ("ArrowRight", "3"), ("ArrowLeft", "2")]:
        page.keyboard.press(key)
        assert frame(page) == at
        assert page.get_by_test_id("player-status").inner_text() == f"now {at}"
    page.keyboard.press("Control+Home")  # the browser's own
    assert frame(page) == "2"
    page.keyboard.press("Home")
    page.get_by_test_id("player-last").focus()
    page.keyboard.press("Enter")
    assert frame(page) == "3"
    assert page.get_by_test_id("player-step").get_attribute("aria-disabled") == "true"
    page.get_by_test_id("player-scrubber").focus()
    page.keyboard.press("ArrowLeft")  # once: the slider's own key, not the player's as well
    assert frame(page) == "2"
    assert page.get_by_test_id("player-scrubber").get_attribute("aria-valuetext") == "2 of 3"
    page.locator("body > input").press("Home")
    assert frame(page) == "2"
    page.get_by_test_id("own").press_sequentially("a b")  # a field keeps its keys
    page.get_by_test_id("own").press("Home")
    assert page.get_by_test_id("own").input_value() == "a b"
    assert frame(page) == "2"


@pytest.mark.browser
def test_the_player_plays_to_the_end_and_speaks_only_when_it_rests(show):
    page = with_player(show(""))
    status = page.get_by_test_id("player-status")
    assert status.get_attribute("aria-live") == "polite"
    page.get_by_test_id("player-play").press(" ")
    assert status.get_attribute("aria-live") == "off"
    page.wait_for_function(
        "document.querySelector('[data-testid=player-play]').ariaLabel === 'play'"
    )
    assert (frame(page), status.get_attribute("aria-live")) == ("3", "polite")
    assert page.evaluate("drawn") == [[0, 0], [1, 0], [2, 0], [3, 0]]  # reduced motion: no part
    page.get_by_test_id("player-play").click()  # from the end it begins again
    page.get_by_test_id("player-play").click()
    stopped = frame(page)
    page.wait_for_timeout(600)
    assert frame(page) == stopped != "3"
    page.emulate_media(reduced_motion="no-preference")
    page.evaluate("control.go(0), drawn.length = 0")
    page.get_by_test_id("player-step").click()
    page.wait_for_function("drawn.at(-1)?.[0] === 1")
    *way, end = page.evaluate("drawn")
    assert way
    assert all(step == 0 and 0 < part < 1 for step, part in way)
    assert end == [1, 0]


@pytest.mark.browser
def test_a_player_that_was_taken_away_does_not_play_on(show):
    page = with_player(show(""))
    page.get_by_test_id("player-play").click()
    page.evaluate("document.querySelector('main').remove(), drawn.length = 0")
    page.wait_for_timeout(1000)
    assert page.evaluate("[drawn.length, control.frame]") == [0, 1]
