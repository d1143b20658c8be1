"""What a reader sees: `make lab` in Chromium, Run All in two notebooks at once, an animation."""

import json

import nbformat
import pytest
import requests

from tests.browser.driver import PANEL, OpenNotebook, take, wait_for
from tests.notebooks import axe
from tools.run import problems

NAMES = ["01_mpi_basics", "08_allreduce_animation"]
KINDS = {  # of outputs, ours; plain text is JupyterLab's
    "01_mpi_basics": {"error"},
    "08_allreduce_animation": {"text/html", "text/markdown", "image/png"},
}
pytestmark = [
    pytest.mark.browser,
    pytest.mark.part(of="browser"),
    pytest.mark.mpi,
    pytest.mark.timeout(1500),
]


@pytest.fixture(scope="module")
def both(browser, lab):
    """Both notebooks open at once, each in its tab with its own kernel and ranks, and run."""
    opened = {name: OpenNotebook(browser, lab, name) for name in NAMES}
    try:
        for notebook in opened.values():
            notebook.run_all()
        wait_for(list(opened.values()), seconds=900)
        yield opened
    finally:
        for name, notebook in opened.items():
            take(notebook.page, f"{name}-end")
            notebook.context.close()


@pytest.mark.parametrize("name", NAMES)
def test_run_all_reaches_the_end_without_an_error_cell(both, name, lab):
    notebook = both[name]
    assert notebook.failed() == []
    notebook.save()
    saved = nbformat.read(lab.work / f"{name}.ipynb", 4)
    assert problems(saved, "reader") == []


def test_messages_of_a_kernel_are_encrypted(lab):
    """Who else is on the machine can connect to its ports, which are TCP's."""
    who = {"headers": {"Authorization": f"token {lab.token}"}, "timeout": 60}
    kernel = requests.post(f"{lab.url}api/kernels", **who).json()["id"]
    try:
        (told,) = (lab.work.parents[1] / "runtime").glob(f"kernel-{kernel}.json")
        assert json.loads(told.read_text()).get("curve_publickey")
    finally:
        requests.delete(f"{lab.url}api/kernels/{kernel}", **who)


def first_animation(notebook):
    """Return the notebook's first animation, in sight."""
    index = next(
        index
        for index, cell in enumerate(notebook.cells())
        for output in cell["outputs"]
        if 'data-testid="animation"' in str(output.get("data", {}).get("text/html", ""))
    )
    return notebook.show(index).locator('[data-testid="animation"]').first


def test_a_click_steps_the_animation(both):
    notebook = both["08_allreduce_animation"]
    animation = first_animation(notebook)
    frame = animation.locator('[data-testid="animation-frame"]')
    before = int(frame.get_attribute("data-frame"))
    picture = animation.screenshot()
    animation.locator('[data-testid="animation-step"]').click()
    notebook.page.wait_for_timeout(1500)  # until what moves has arrived
    assert int(frame.get_attribute("data-frame")) == before + 1
    assert animation.screenshot() != picture, "the picture did not change"
    take(notebook.page, "08_allreduce_animation-stepped")
    assert notebook.errors == []


def first_of_each_kind(cells, wanted: set[str]) -> list[int]:
    """Return cells whose outputs stand for all, two of each kind: all would take minutes."""
    chosen: dict[str, list[int]] = {kind: [] for kind in wanted}
    for index, cell in enumerate(cells):
        kinds = {kind for output in cell["outputs"] for kind in output.get("data", {})}
        for kind in wanted & (kinds | {output["output_type"] for output in cell["outputs"]}):
            chosen[kind].append(index)
    assert all(chosen.values()), chosen
    return sorted({index for indices in chosen.values() for index in indices[:2]})


@pytest.mark.parametrize("theme", ["Dark", "Light"])
def test_outputs_keep_nobody_out(both, theme, request):
    problems = []
    for name, kinds in KINDS.items():
        notebook = both[name]
        request.addfinalizer(lambda notebook=notebook: notebook.dress("Light"))
        notebook.dress(theme)
        for index in first_of_each_kind(notebook.cells(), kinds):
            cell = notebook.show(index)
            images = cell.locator(".jp-RenderedImage img")
            assert all(images.evaluate_all("all => all.map(i => i.alt)"))
            lines = cell.locator(".jp-OutputArea-output pre")
            broken = lines.evaluate_all("all => all.map(p => getComputedStyle(p).wordBreak)")
            assert set(broken) <= {"normal"}  # between words, not in them
            area = f'{PANEL} [data-windowed-list-index="{index}"] .jp-Cell-outputWrapper'
            take(notebook.page, f"{name}-{index}-{theme}")
            problems += [
                f"{name}, cell {index}: {fault}"
                for fault in axe.serious(notebook.page, axe.WCAG, area)
            ]
    assert problems == []


def test_a_term_leads_to_the_glossary(browser, lab):
    notebook = OpenNotebook(browser, lab, "00_start_here")
    page = notebook.page
    page.locator('a[href*="glossary.md"]', has_text="core").first.click()
    heading = page.locator(".jp-MarkdownViewer h2", has_text="core").first
    heading.wait_for()
    page.wait_for_timeout(500)
    take(page, "glossary")
    top = heading.bounding_box()["y"]
    assert 0 < top < 400, f"the glossary is open, but not at the term: it is at {top:.0f} pixels"
    notebook.context.close()
