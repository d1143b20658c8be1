"""helpers.plots.animation: self-contained, small, told apart, and playing in a real browser."""

import itertools
from dataclasses import replace

import pytest

from helpers.collectives.schedule import Transfer, model
from helpers.plots.animation import animate
from tests.plots import values

SIX = ("broadcast", "scatter", "gather", "allgather", "reduce", "ring")


def test_small_enough_for_several_on_a_page():
    schedules = [model(name, n, p) for name in SIX for n in (2, 3, 4, 8) for p in (1, 2, 4)]
    assert len(animate(schedules).data) < 150_000


def test_data_are_the_schedule_and_what_each_message_leaves_at_its_receiver():
    plan = model("reduce", 4)
    ring, encoded = values(animate([model("ring", 3), plan]).data)["schedules"]
    assert ring["steps"][0] == [[0, 1, 2], [1, 2, 0], [2, 0, 1]]
    assert ring["held"] == [[1, 1, 1], [2, 2, 2], [4, 4, 4]]
    assert (ring["ranks"], ring["chunks"], ring["origin"]) == (3, 3, "model")
    states = plan.states()
    for step, after in enumerate(encoded["after"], start=1):
        told = [states[step][t.dest][t.chunk] for t in plan.at(step)]
        assert [{r for r in range(4) if bits >> r & 1} for bits in after] == told


def test_a_schedule_that_counts_twice_is_not_played():
    held = tuple((frozenset(ranks),) for ranks in ({0, 1}, {1, 2}))
    twice = replace(model("tree", 2), transfers=(Transfer(1, 0, 1, 0),), held=held)
    with pytest.raises(ValueError, match="which already holds"):
        animate(twice)


def test_more_ranks_than_can_be_drawn():
    with pytest.raises(ValueError, match=r"at most 30 ranks; 'tree' has 64"):
        animate(model("tree", 64))


@pytest.fixture
def page(show):
    """Two players: allreduces of 2, 3 and 4 ranks, and the six primitives."""
    many = [model(name, n, p) for name in ("ring", "tree") for n in (4, 2, 3) for p in (1, 2)]
    return show(animate(many).data + animate([model(name, 4) for name in SIX]).data)


def part(page, name: str, player: int = 0):
    return page.get_by_test_id("animation").nth(player).get_by_test_id(f"animation-{name}")


@pytest.mark.browser
def test_stepping(page):
    assert part(page, "frame").inner_text() == "step 0 of 6"
    assert part(page, "back").is_disabled()
    part(page, "step").click()
    assert part(page, "frame").inner_text() == "step 1 of 6"
    assert part(page, "frame", 1).inner_text() == "step 0 of 2"  # the other player did not move
    told = part(page, "status").inner_text()
    assert "every rank r sends chunk r − 1 to rank r + 1, which adds it" in told
    assert "reduce-scatter" in told
    part(page, "scrubber").fill("6")
    assert "every rank sent 1.5 K" in part(page, "status").inner_text()
    assert "allgather" in part(page, "status").inner_text()


@pytest.mark.browser
def test_sliders_and_menu(page):
    part(page, "ranks").fill("0")
    assert part(page, "frame").inner_text() == "step 0 of 2"
    assert part(page, "origin").inner_text() == "model: 2 ranks"
    part(page, "pieces").fill("1")
    assert part(page, "frame").inner_text() == "step 0 of 4"
    part(page, "collective").select_option("tree")
    assert part(page, "frame").inner_text() == "step 0 of 4"
    part(page, "ranks").fill("2")
    assert part(page, "origin").inner_text() == "model: 4 ranks"


@pytest.mark.browser
def test_what_a_broadcast_brings_is_whole(page):
    """A copy of the root's chunk is complete: one stripe over the whole box, and a black border."""
    part(page, "collective", 1).select_option("broadcast")
    part(page, "last", 1).click()
    svg = page.get_by_test_id("animation").nth(1).locator("svg").last
    boxes = svg.locator("g", has=page.locator("title", has_text="from ranks 0"))
    assert boxes.count() == 4
    for box in boxes.all():
        grey, stripe, _ = (float(r.get_attribute("width")) for r in box.locator("rect").all())
        assert stripe >= grey
        assert box.locator("rect").last.get_attribute("stroke") == "#111"


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_text_is_large_enough_and_lies_on_no_other(show, width):
    """On a telephone, too. Sixteen ranks do not fit there: the picture can be scrolled."""
    page = show("".join(animate(model("ring", ranks)).data for ranks in (2, 4, 8, 16)))
    page.set_viewport_size({"width": width, "height": 844})
    for player in range(4):
        part(page, "last", player).click()
        texts = page.get_by_test_id("animation").nth(player).locator("svg text")
        sizes = texts.evaluate_all(
            "all => all.map(t => t.getAttribute('font-size') * t.getScreenCTM().a)"
        )
        assert min(sizes) > 11.5
        boxes = texts.evaluate_all("all => all.map(t => t.getBoundingClientRect().toJSON())")
        whole = texts.first.evaluate("t => t.ownerSVGElement.getBoundingClientRect().toJSON()")
        assert max(box["right"] for box in boxes) <= whole["right"]
        for one, other in itertools.combinations(boxes, 2):
            apart = one["right"] <= other["left"] or other["right"] <= one["left"]
            assert apart or one["bottom"] <= other["top"] + 4 or other["bottom"] <= one["top"] + 4
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
