"""The graph runs step by step, fills its memory and answers to keys; the slider of segments."""

import pytest

from helpers import autodiff
from helpers.autodiff import checkpoint
from helpers.plots.graph import segments
from helpers.plots.graph_html import graph

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def plan():
    x, W = autodiff.variable("x", shape=(4, 3)), autodiff.variable("W", shape=(3, 2))
    h = autodiff.tanh(x @ W)  # 1 matmul, 2 tanh over it
    return autodiff.plan([x, W], [autodiff.sum(h * h)])


def test_memory_fills_and_empties_as_the_plan_says(page, plan):
    page.set_content(graph(plan).data)
    memory = page.get_by_test_id("graph-memory")
    assert (
        memory.get_attribute("aria-label")
        == f"memory: 0 of at most {plan.peak} bytes, in 0 buffers"
    )
    for number, live in enumerate(plan.live, start=1):
        page.get_by_test_id("graph-step").click()
        assert f"memory: {live} of at most" in memory.get_attribute("aria-label")
        assert f"; {live} B in buffers" in page.get_by_test_id("graph-status").inner_text()
        if number == 2:
            said = page.get_by_test_id("graph-status").inner_text()
            assert "tanh, over the result of matmul: nobody reads that again" in said
            over = page.locator('[data-variable="2"]')  # what matmul made
            assert "gone" in over.get_attribute("class")
    assert (
        page.get_by_test_id("graph-frame").inner_text()
        == f"step {len(plan.steps)} of {len(plan.steps)}"
    )


def test_a_graph_opens_at_the_step_that_was_asked_for(page, plan):
    page.set_content(graph(plan, first=2).data)
    assert page.get_by_test_id("graph-frame").inner_text() == f"step 2 of {len(plan.steps)}"
    label = page.get_by_test_id("graph-memory").get_attribute("aria-label")
    assert label.startswith(f"memory: {plan.live[1]} of")


def test_the_legend_names_what_the_picture_shows(page, plan):
    page.set_content(graph(plan).data)
    assert page.locator(".key span").all_inner_texts() == ["this step"]
    x = autodiff.variable("x", shape=(4, 3))
    y = autodiff.sum(autodiff.transpose(x) @ autodiff.tanh(x))
    page.set_content(graph(autodiff.plan([x], autodiff.gradients(y, [x])), loss=y).data)
    said = page.locator(".key span").all_inner_texts()
    assert said == ["forward pass", "backward pass", "this step", "white: shares an input's bytes"]


def test_boxes_and_ovals_answer_to_the_pointer_and_to_keys(page, plan):
    page.set_content(graph(plan).data)
    page.get_by_test_id("graph-node-0").hover()
    said = page.get_by_test_id("graph-said")
    assert said.inner_text() == "x: float64 (4, 3), 96 B, fed from outside, read in step 1."
    assert page.locator(".edge.near").count() == 1
    stops = page.locator('.sheet g[tabindex="0"]')
    assert stops.count() == 1
    stops.focus()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    focused = "document.activeElement.getAttribute('aria-label')"
    assert page.evaluate(focused) == said.inner_text().rstrip(".")
    assert page.get_by_test_id("graph-frame").inner_text() != f"step 0 of {len(plan.steps)}"
    for node in page.locator(".sheet svg g").all():
        assert node.get_attribute("role") == "button"
        assert node.get_attribute("aria-label")


def test_the_slider_of_segments_reaches_every_schedule(page):
    ways = {
        "segments": {m: checkpoint.in_segments(16, m) for m in range(1, 17)},
        "best": {m: checkpoint.optimal(16, m) for m in range(1, 17)},
    }
    page.set_content(segments(ways, 16, 4).data)
    slider, said = page.get_by_test_id("segments-count"), page.get_by_test_id("segments-said")
    found = checkpoint.cost(16, ways["segments"][4])
    assert f"At most {found.peak} of 16 results" in said.inner_text()
    slider.focus()
    for key, count in (("Home", 1), ("End", 16), ("ArrowLeft", 15)):
        page.keyboard.press(key)
        found = checkpoint.cost(16, ways["segments"][count])
        assert f"segments: {count}. At most {found.peak} of 16" in said.inner_text()
        assert f"; {found.forwards} steps forward" in said.inner_text()
    page.get_by_test_id("segments-way").select_option("best")
    found = checkpoint.cost(16, ways["best"][15])
    assert f"best: 15. At most {found.peak} of 16" in said.inner_text()
