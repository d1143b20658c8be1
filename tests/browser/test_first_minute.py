"""A reader's first minute: `make lab` opens 00, at its top, beside a list; its first cell runs."""

import pytest

from helpers.paths import ROOT
from tests.browser.driver import take

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
OPEN = "() => window.jupyterapp.shell.currentWidget.title.label"
TOP = "() => document.querySelector('.jp-WindowedPanel-outer')?.scrollTop ?? 0"
NAMES = ".jp-DirListing-itemName"
CUT = """all => all.filter((one) => [one, ...one.querySelectorAll('*')].some(
    (part) => part.scrollWidth > part.clientWidth && getComputedStyle(part).display != 'inline'
)).map((one) => one.innerText)"""


def test_00_is_open_at_its_top_beside_all_notebooks_and_runs(browser, lab):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(120_000)
    page = context.new_page()
    page.goto(f"{lab.url}?token={lab.token}")  # as JupyterLab prints and opens it
    page.wait_for_selector(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-Cell h1")
    page.wait_for_timeout(3000)  # time to jump, if it does
    take(page, "first-minute")
    assert page.evaluate(OPEN).startswith("00_")
    assert page.evaluate(TOP) == 0
    shown = page.locator(NAMES).all_inner_texts()
    assert {path.name for path in (ROOT / "notebooks").glob("*.ipynb")} <= set(shown)
    assert page.locator(NAMES).evaluate_all(CUT) == []
    cell = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell").first
    cell.locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")
    picture = cell.locator(".jp-OutputArea .ring svg")
    picture.wait_for()
    assert picture.get_attribute("aria-label")
    context.close()
