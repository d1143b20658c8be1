"""tools.widgets, tools.states: a widget plays, or stands still, in a page that has no kernel."""

import json

import nbformat
import pytest
from bs4 import BeautifulSoup

from helpers.paths import ROOT
from tests.notebooks import axe
from tools import states as states_module
from tools.run import execute
from tools.site.pictures import with_pictures
from tools.site.players import player, said
from tools.states import STATES, choose, spread
from tools.widgets import without_widgets

SETUP = """%matplotlib inline
import ipywidgets as w, matplotlib.pyplot as plt
from helpers.plots import style
style.use()"""
SLIDER = """slider = w.IntSlider(3, 1, 9, description='ranks:')
def draw(n, kind):
    plt.plot([0, n], marker={'ring': '', 'tree': 'o'}[kind])
    plt.title(f'{kind} of {n}')
    plt.show()
    print('n is', n)
_ = w.interact(draw, n=slider, kind=['ring', 'tree'])"""
BOX = """choice = w.Dropdown(options=['ring', 'tree'], index=1, description='algorithm')
w.VBox([w.HTML('<b>bold</b>'), w.FloatProgress(0.5), choice])"""
SCRIPT = ROOT / "docs" / "static" / "states.js"


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A notebook with widgets, executed as the site does."""
    path = tmp_path_factory.mktemp("page") / "00_try.ipynb"
    cells = [nbformat.v4.new_code_cell(text) for text in (SETUP, SLIDER, BOX)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    done = execute(path, "reader", states=600)  # a busy machine takes no fewer
    assert done.problems == ()
    return done.notebook


@pytest.fixture(scope="module")
def built(shown, tmp_path_factory):
    """The folder of pictures, and the widget's HTML."""
    figures = tmp_path_factory.mktemp("site") / "figures"
    figures.mkdir()
    page = with_pictures(without_widgets(shown), "01_try", figures)
    return figures, page.cells[1].outputs[0].data["text/html"]


def test_widgets_without_states_show_what_they_showed(shown):
    text = nbformat.writes(nbformat.v4.new_notebook(cells=without_widgets(shown).cells))
    assert "<b>bold</b>" in text
    assert "In JupyterLab you set: algorithm = tree." in text
    assert "widget-view" not in text
    assert "FloatProgress(value" not in text


def test_a_line_that_was_taken_away_leaves_nothing():
    shown = [{"text/plain": "", "text/html": ""}, {"text/plain": "a", "text/html": ""}]
    cell = nbformat.v4.new_code_cell(
        "", outputs=[nbformat.v4.new_output("display_data", data=data) for data in shown]
    )
    (output,) = without_widgets(nbformat.v4.new_notebook(cells=[cell])).cells[0].outputs
    assert output.data == shown[1]


def test_a_state_has_what_a_display_became(tmp_path):
    code = (
        "import ipywidgets\nfrom IPython.display import display\ndef draw(n):\n"
        "    gone, kept = display('wait', display_id=True), display('a', display_id=True)\n"
        "    display('fixed'); kept.update(f'n is {n}')\n"
        "    gone.update({'text/plain': ''}, raw=True)\n"
        "ipywidgets.interactive(draw, n=(1, 3))"
    )
    path = tmp_path / "n.ipynb"
    cells = [nbformat.v4.new_code_cell(text) for text in (SETUP, code)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    _, cell = without_widgets(execute(path, "reader", states=True).notebook).cells
    for number, state in enumerate(cell.outputs[0].data[STATES]["states"], 1):
        shown = [output["data"]["text/plain"] for output in state["outputs"]]
        assert shown == [f"'n is {number}'", "'fixed'"]


def test_every_state_of_an_interact_is_there(shown):
    (output,) = without_widgets(shown).cells[1].outputs
    found = output.data[STATES]
    ranks, kind = found["controls"]
    assert (ranks["label"], ranks["kind"], ranks["start"]) == ("ranks", "range", 2)
    assert (kind["label"], kind["kind"], kind["words"]) == ("kind", "select", ["ring", "tree"])
    assert len(found["states"]) == 18
    for state in found["states"]:
        picture, printed = sorted(state["outputs"], key=lambda one: one["output_type"])
        n, how = (one["words"][at] for one, at in zip(found["controls"], state["at"], strict=True))
        assert printed["text"] == f"n is {n}\n"
        assert f"{how} of {n}" in picture["metadata"]["image/png"]["alt"]


def test_a_page_has_the_start_first_and_says_which_states_it_has(built):
    figures, text = built
    page = BeautifulSoup(text, "html.parser")
    assert page.figure["id"] == "figure-1"
    panels = page.select(".states-panel")
    assert len(panels) == 18
    assert [panel.has_attr("hidden") for panel in panels] == [False] + 17 * [True]
    assert "ring of 3" in panels[0].img["alt"]
    assert page.select_one(".states-begin").text == "Shown: ranks = 3, kind = ring."
    assert page.fieldset.has_attr("hidden"), "without a script there is nothing to move"
    for image in page("img"):
        assert (figures / image["src"].rpartition("/")[2]).read_bytes().startswith(b"RIFF")
    assert sorted(json.loads(page.div["data-states"]).values()) == list(range(18))


def test_keys_move_a_control_to_another_picture(built, browser):
    """In Chromium: a slider by its arrows, a list by its letters; axe has no serious fault."""
    figures, text = built
    site = figures.parent / "notebooks"
    site.mkdir(exist_ok=True)
    (site / "a.html").write_text(
        "<!doctype html><html lang=en><title>x</title><main><h1>x</h1>"
        f"{text}</main><script>{SCRIPT.read_text()}</script>"
    )
    page, trouble = browser.new_page(), []
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on("request", lambda one: one.url.startswith("http") and trouble.append(one.url))
    page.goto((site / "a.html").as_uri())
    picture = page.locator(".states-panel:visible img")
    assert "ring of 3" in picture.get_attribute("alt")
    slider = page.get_by_label("ranks", exact=True)
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert "ring of 4" in picture.get_attribute("alt")
    assert slider.get_attribute("aria-valuetext") == "4"
    assert page.locator("output").inner_text() == "4"
    page.wait_for_function("[...document.images].every(one => one.complete && one.naturalWidth)")
    page.get_by_label("kind").focus()
    page.keyboard.press("t")
    assert "tree of 4" in picture.get_attribute("alt")
    assert axe.serious(page, axe.WCAG) == []
    page.get_by_role("button", name="Play ranks").press("Enter")
    page.get_by_role("button", name="Pause ranks").wait_for()
    page.wait_for_function("document.querySelector('output').textContent === '9'")
    assert "tree of 9" in picture.get_attribute("alt")
    page.get_by_role("button", name="Play ranks").wait_for()
    page.close()
    assert trouble == []


def test_in_print_and_without_a_script_the_start_stands_there(built, browser):
    _, text = built
    style = (ROOT / "docs" / "static" / "states.css").read_text()
    for scripted in (True, False):
        context = browser.new_context(java_script_enabled=scripted)
        page = context.new_page()
        page.set_content(f"<style>{style}</style>{text}")
        if scripted:
            page.add_script_tag(content=SCRIPT.read_text())
            page.get_by_label("kind").select_option("tree")
            assert "tree of 3" in page.locator(".states-panel:visible img").get_attribute("alt")
        page.emulate_media(media="print")
        assert "ring of 3" in page.locator(".states-panel:visible img").get_attribute("alt")
        assert page.locator(".states-begin").is_visible()
        assert not page.get_by_label("kind").is_visible()
        context.close()


def test_fewer_states_where_one_is_expensive():
    assert choose([10], [3], 4) == ([[0, 3, 6, 9]], [(0,), (3,), (6,), (9,)])
    chosen, found = choose([29, 21], [11, 1], 25)
    assert [len(one) for one in chosen] == [5, 5]
    assert len(found) == 25
    chosen, found = choose([24, 24, 100], [15, 1, 29], 40)
    assert len(found) <= 40
    assert (15, 1, 29) in found
    assert all((a != 15) + (b != 1) + (c != 29) <= 1 for a, b, c in found), "one at a time"
    for size in range(1, 40):
        for start in range(size):
            for most in range(states_module.FEWEST, 13):
                found = spread(size, start, most)
                assert found == sorted(set(found))
                assert {0, start, size - 1} <= set(found)
                assert len(found) == min(size, most)


def test_controls_moved_one_at_a_time_go_back(browser):
    controls = [
        {"label": name, "kind": "select", "words": ["0", "1"], "start": 0, "of": of}
        for name, of in (("a", 2), ("b", 9))
    ]
    found = {
        "controls": controls,
        "states": [
            {"at": at, "outputs": [{"output_type": "stream", "text": f"at {at}"}]}
            for at in ([0, 0], [1, 0], [0, 1])
        ],
    }
    assert said(found) == (
        "3 states were computed for this page, with 2 of 9 values of b. Moving one control puts "
        "the others back to their start. In JupyterLab you choose freely."
    )
    page = browser.new_page()
    page.set_content(player(found, "x", picture=None))
    page.add_script_tag(content=SCRIPT.read_text())
    page.get_by_label("a", exact=True).select_option("1")
    assert page.locator("pre:visible").inner_text() == "at [1, 0]"
    page.get_by_label("b", exact=True).select_option("1")
    assert page.locator("pre:visible").inner_text() == "at [0, 1]"
    assert page.get_by_label("a", exact=True).input_value() == "0"
    page.close()


def test_a_line_that_was_parted_by_what_was_taken_away_is_one_line():
    text = lambda words: nbformat.v4.new_output("stream", name="stdout", text=words)  # noqa: E731
    gone = nbformat.v4.new_output("display_data", data={"text/html": "", "text/plain": ""})
    cell = nbformat.v4.new_code_cell("", outputs=[text("sweeps "), gone, text("51\n"), gone])
    (output,) = without_widgets(nbformat.v4.new_notebook(cells=[cell])).cells[0].outputs
    assert output.text == "sweeps 51\n"
