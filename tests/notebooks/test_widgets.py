"""tools.widgets: what a widget showed stands in a page that has no kernel."""

import nbformat
import pytest

from tools.run import execute
from tools.widgets import without_widgets

SLIDER = """import ipywidgets as w
slider = w.IntSlider(3, 1, 9, description='ranks:')
display(w.interactive(lambda n: print('n is', n), n=slider))"""
BOX = """choice = w.Dropdown(options=['ring', 'tree'], index=1, description='algorithm')
w.VBox([w.HTML('<b>bold</b>'), w.FloatProgress(0.5), choice])"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A notebook with widgets, executed."""
    path = tmp_path_factory.mktemp("page") / "00_try.ipynb"
    cells = [nbformat.v4.new_code_cell(text) for text in (SLIDER, BOX)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    done = execute(path, "reader")
    assert done.problems == ()
    return done.notebook


def test_widgets_show_what_they_showed(shown):
    text = nbformat.writes(nbformat.v4.new_notebook(cells=without_widgets(shown).cells))
    assert "In JupyterLab you set: ranks = 3." in text
    assert "n is 3" in text
    assert "<b>bold</b>" in text
    assert "In JupyterLab you set: algorithm = tree." in text
    assert "widget-view" not in text
    assert "FloatProgress(value" not in text


def test_the_notebook_itself_is_left_alone(shown):
    assert "widgets" in shown.metadata
    without_widgets(shown)
    assert "widgets" in shown.metadata
