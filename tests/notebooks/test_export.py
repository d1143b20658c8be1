"""tools.export and tools.widgets: pages that stand on their own, and faults that are found."""

import nbformat
import pytest
from bs4 import BeautifulSoup

from helpers.paths import ROOT
from tools.export import faults, page, site, title
from tools.notebooks import sources
from tools.run import execute
from tools.widgets import without_widgets

NAMES = [path.stem for path in sources(ROOT)]


FIRST = """md:# The *title* of $x$

## a part

See [rank](glossary.md#rank), [next](01_b.ipynb#a-part) and [this](#a-part): $$\\frac{1}{2}$$"""
LATEX = r"""from IPython.display import Math, HTML, display
Math(r'\alpha + 1')"""
SLIDER = """import ipywidgets as w
slider = w.IntSlider(3, 1, 9, description='ranks:')
display(w.interactive(lambda n: print('n is', n), n=slider))"""
BOX = """choice = w.Dropdown(options=['ring', 'tree'], index=1, description='algorithm')
w.VBox([w.HTML('<b>bold</b>'), w.FloatProgress(0.5), choice])"""
PICTURE = """import matplotlib.pyplot as plt
_ = plt.plot([1, 2])"""


def notebook_of(*texts: str):
    cells = []
    for text in texts:
        if text.startswith("md:"):
            cells.append(nbformat.v4.new_markdown_cell(text[3:]))
        else:
            cells.append(nbformat.v4.new_code_cell(text))
    return nbformat.v4.new_notebook(cells=cells)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A notebook with formulas, links, LaTeX, a picture and widgets, executed and exported."""
    path = tmp_path_factory.mktemp("page") / "00_try.ipynb"
    nbformat.write(notebook_of(FIRST, LATEX, SLIDER, BOX, PICTURE), path)
    done = execute(path, "reader")
    assert done.problems == ()
    return done.notebook


@pytest.fixture(scope="module")
def pages(shown):
    other = notebook_of("md:# Other\n\n## a part")
    return site({"00_try": shown, "01_b": other}, "# Glossary\n\n## rank\n\nA process.")


def test_pages_have_no_faults(pages):
    assert faults(pages) == []
    assert list(pages) == ["00_try.html", "01_b.html", "glossary.html", "index.html"]


def test_formulas_are_mathml_and_links_lead_to_pages(pages):
    soup = BeautifulSoup(pages["00_try.html"], "html.parser")
    assert len(soup.find_all("math")) >= 3, "the heading, the text, and the LaTeX output"
    hrefs = [link["href"] for link in soup.select("main a[href]")]
    assert {"glossary.html#rank", "01_b.html#a-part", "#a-part", "index.html"} <= set(hrefs)
    assert not soup.select("script[src]")
    assert soup.title.text == "The title of x"


def test_widgets_show_what_they_showed(pages):
    text = BeautifulSoup(pages["00_try.html"], "html.parser").get_text()
    assert "In JupyterLab you set: ranks = 3." in text
    assert "n is 3" in text
    assert "bold" in text
    assert "In JupyterLab you set: algorithm = tree." in text
    assert "widget-view" not in pages["00_try.html"]
    assert "FloatProgress(value" not in text


def test_the_contents_list_every_page(pages):
    soup = BeautifulSoup(pages["index.html"], "html.parser")
    assert [link.text for link in soup.select("li a")] == ["The title of x", "Other", "Glossary"]


def test_the_notebook_itself_is_left_alone(shown):
    assert "widgets" in shown.metadata
    without_widgets(shown)
    page(shown, "00_try")
    assert "widgets" in shown.metadata


@pytest.mark.parametrize(
    ("html", "says"),
    [
        ('<a href="gone.html">x</a>', "a.html links to gone.html, and there is no such page"),
        ('<a href="b.html#gone">x</a>', "b.html has no such heading"),
        ('<a href="#gone">x</a>', "a.html links to #gone"),
        ('<script src="https://cdn.example/x.js"></script>', "<script> fetches https://cdn"),
        ('<link href="style.css" rel="stylesheet">', "<link> fetches style.css"),
        ('<img src="picture.png">', "<img> fetches picture.png"),
        ("<style>@import 'https://fonts.example/f.css'</style>", "a style fetches https://fonts"),
        ("<style>p { background: url(http://x.example/y) }</style>", "a style fetches http://x"),
        ("x" * 2_000_000, "a.html has 2.00 MB, expected less than 2"),
    ],
)
def test_faults_are_found(html, says):
    found = faults({"a.html": f"<p>{html}</p>", "b.html": "<h1 id='here'>b</h1>"})
    assert len(found) == 1
    assert says in found[0]


def test_what_stands_on_its_own_has_no_fault():
    outside = "<a href='https://mpi-forum.org'>x</a><img src='data:image/png;base64,AA'>"
    inside = "<a href='b.html#h%C3%A9'>y</a>"
    assert faults({"a.html": outside + inside, "b.html": "<h1 id='hé'>b</h1>"}) == []


def test_a_link_to_a_page_that_another_call_makes_is_no_fault():
    pages = {"a.html": "<a href='b.html#part'>x</a><a href='c.html'>y</a>"}
    assert faults(pages, {"b.html"}) == ["a.html links to c.html, and there is no such page"]


def test_the_contents_keep_what_was_exported_before(shown):
    pages = site({"02_try": shown}, "", {"01_b": "Other", "02_try": "An older title"})
    soup = BeautifulSoup(pages["index.html"], "html.parser")
    assert [link["href"] for link in soup.select("li a")] == ["01_b.html", "02_try.html"]
    assert [link.text for link in soup.select("li a")] == ["Other", "The title of x"]


def test_title_without_a_heading():
    assert title(notebook_of("md:text")) == ""


@pytest.mark.notebook
@pytest.mark.timeout(1800)
def test_every_notebook_makes_a_page_that_stands_on_its_own(executed):
    glossary = (ROOT / "notebooks" / "glossary.md").read_text(encoding="utf-8")
    notebooks = {name: executed(name, "reader").notebook for name in NAMES}
    assert faults(site(notebooks, glossary)) == []
