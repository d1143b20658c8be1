"""A figure in JupyterLab has its words for those who do not see it, and so has a saved one."""

import pytest

from tests.browser.driver import READY, take, wait_for

pytestmark = [
    pytest.mark.browser,
    pytest.mark.part(of="browser"),
    pytest.mark.timeout(300),
]
SVG = '<svg width="9" height="9"><rect width="9" height="9"/></svg>'
CELLS = [
    "import matplotlib.pyplot as plt\nfrom IPython.display import display, publish_display_data\n"
    "from helpers.plots import style\nstyle.use()",
    "plt.plot([1, 2], [3, 4], label='a \"b\" < c')\nplt.show()",
    "figure, ax = plt.subplots()\nshown = display(figure, display_id=True)\nplt.close()",
    "ax.set_title('second')\nshown.update(figure)",
    f"publish_display_data({{'image/svg+xml': {SVG!r}}}, {{'image/svg+xml': {{'alt': 'square'}}}})",
    "import io\nwritten = io.BytesIO()\nfigure.savefig(written)\n"
    "publish_display_data({'image/png': written.getvalue()}, {'image/png': {'width': 90}})",
]
WORDS = {1: 'Line "a "b" < c": from 3 at 1 to 4 at 2.', 2: "second.", 4: "square", 5: None}


def pictures(notebook) -> dict[int, str | None]:
    """Return the alt text of each cell's picture, which must be seen."""
    found = {}
    for index in WORDS:
        picture = notebook.show(index).locator(".jp-OutputArea img")
        picture.wait_for()
        assert picture.evaluate("picture => picture.decode().then(() => picture.naturalWidth)") > 0
        found[index] = picture.get_attribute("alt")
    assert picture.evaluate("picture => picture.width") == 90, "its other metadata count as before"
    return found


def test_figures_have_their_words_when_run_and_when_opened_again(opened):
    notebook = opened("words", CELLS)
    notebook.run_all()
    wait_for([notebook], seconds=120)
    assert notebook.failed() == []
    take(notebook.page, "alt_text")
    assert pictures(notebook) == WORDS
    notebook.save()
    notebook.context.close()
    again = opened("words")
    again.page.wait_for_function(READY)
    assert pictures(again) == WORDS
