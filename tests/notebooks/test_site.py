"""The site: every page stands, explains its terms, is found, and can be used by everybody."""

import re

import nbformat
import pytest
from axe_playwright_python.sync_playwright import Axe
from bs4 import BeautifulSoup

from helpers.paths import ROOT
from tools import executed as executed_module
from tools.export import ExportError
from tools.notebooks import sources
from tools.site import generated
from tools.site.faults import faults
from tools.site.rendering import definitions
from tools.site.sources import NO_ALT, PARTS, with_anchors, with_pictures, with_solutions

NAMES = [path.stem for path in sources(ROOT)]
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
whole = [pytest.mark.notebook, pytest.mark.timeout(1800)]


def shown(metadata):
    output = nbformat.v4.new_output("display_data", {"image/png": PIXEL}, metadata=metadata)
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("plot()", outputs=[output])])


def test_a_plot_becomes_a_file_with_its_words(tmp_path):
    page = with_pictures(shown({"image/png": {"alt": 'a "b" < c'}}), "01_x", tmp_path)
    (picture,) = BeautifulSoup(page.cells[0].outputs[0].data["text/html"], "html.parser")("img")
    assert picture["alt"] == 'a "b" < c'
    assert (tmp_path / picture["src"].rpartition("/")[2]).read_bytes().startswith(b"\x89PNG")


def test_headings_of_other_notebooks_are_named_as_the_site_names_them():
    text = "[a](08_x.ipynb#Who-sits-where?) [b](08_x.ipynb) [c](glossary.md#Kept)"
    expected = "[a](08_x.ipynb#who-sits-where) [b](08_x.ipynb) [c](glossary.md#Kept)"
    assert with_anchors(text) == expected


def test_a_plot_without_words_fails_the_build(tmp_path):
    page = with_pictures(shown({}), "01_x", tmp_path)
    (tmp_path / "a.html").write_text(page.cells[0].outputs[0].data["text/html"])
    found = faults(tmp_path)
    assert any("has no description" in fault for fault in found), found
    assert NO_ALT in page.cells[0].outputs[0].data["text/html"]


@pytest.mark.parametrize(
    ("html", "says"),
    [
        ('<a href="gone.html">x</a>', "a.html links to gone.html, which is not there"),
        ('<a href="b.html#gone">x</a>', "a.html links to b.html#gone, and there is no such head"),
        ('<a href="#gone">x</a>', "a.html links to #gone"),
        ('<script src="https://cdn.example/x.js"></script>', "<script> fetches https://cdn"),
        ('<script src="//cdn.example/x.js"></script>', "<script> fetches //cdn"),
        ('<img alt="x" src="gone.png">', "<img> asks for gone.png, which is not there"),
        ('<img src="b.html">', "b.html has no description"),
        ('<img src="b.html" alt="">', "b.html has no description"),
        ("x" * 2_000_000, "a.html has 2.00 MB, expected less than 2"),
    ],
)
def test_faults_are_found(tmp_path, html, says):
    (tmp_path / "a.html").write_text(f"<p>{html}</p>")
    (tmp_path / "b.html").write_text("<h1 id='here'>b</h1><a href='a.html'>back</a>")
    (found,) = faults(tmp_path)
    assert says in found


def test_a_style_that_fetches_is_found(tmp_path):
    (tmp_path / "a.css").write_text("@import 'https://fonts.example/f.css';")
    assert faults(tmp_path) == ["a.css fetches https://fonts.example/f.css"]


def test_a_solution_stands_folded_below_its_exercise():
    graded = {"nbgrader": {"solution": True}}
    cell = nbformat.v4.new_code_cell("...", metadata=graded)
    solved = nbformat.v4.new_code_cell("answer = 42", metadata=graded)
    solved.id = cell.id
    page = with_solutions(
        nbformat.v4.new_notebook(cells=[cell]), nbformat.v4.new_notebook(cells=[solved])
    )
    assert "answer = 42" in page.cells[1].source
    assert page.cells[1].source.startswith("<details><summary>")


def test_every_notebook_has_its_place_in_the_menu():
    numbers = [number for part in PARTS.values() for number in part]
    assert sorted(numbers) == [name[:2] for name in NAMES]


def test_every_term_has_a_definition():
    headings = re.findall(r"^## (.+)$", (ROOT / "notebooks" / "glossary.md").read_text(), re.M)
    assert len(definitions()) == len(headings)
    assert all(len(text) > 20 for text in definitions().values())


def test_the_page_of_claims_has_every_claim():
    import claims

    text = generated.what_holds()
    for topic in claims.topics():
        for name, claim in claims.of(topic).items():
            assert f"### {name}\n" in text
            assert claim.sentence in text


def test_an_executed_notebook_is_kept_until_it_changes(tmp_path, monkeypatch):
    runs = []
    path = tmp_path / "n.ipynb"

    def execute(source, kind):
        runs.append(source)
        return executed_module.run.Execution("n", kind, nbformat.read(source, 4), 0.1, ())

    monkeypatch.setattr(executed_module.run, "execute", execute)
    monkeypatch.setattr(executed_module.run, "location", lambda name, kind: path)
    for source, expected in (("1", 1), ("1", 1), ("2", 2)):
        nbformat.write(nbformat.v4.new_notebook(cells=[]), path)
        path.write_text(path.read_text() + source.replace("1", "").replace("2", " "))
        _, problems = executed_module.executed(["n"], tmp_path / "kept", say=lambda line: None)
        assert problems == []
        assert len(runs) == expected


def test_a_formula_that_cannot_be_read_is_named():
    from tools.export import mathml

    with pytest.raises(ExportError, match="frac"):
        mathml(r"\frac{1", display=True)


class TestWhole:
    pytestmark = whole

    def test_sphinx_has_no_complaint_and_no_page_a_fault(self, built):
        folder, complaint = built
        assert complaint == ""
        assert faults(folder) == []
        pages = {path.relative_to(folder).as_posix() for path in folder.rglob("*.html")}
        assert {f"notebooks/{name}.html" for name in NAMES} <= pages
        assert {f"api/{name}.html" for name in generated.LIBRARIES} <= pages

    def test_terms_explain_themselves_and_pages_lead_on(self, built):
        soup = BeautifulSoup(
            (built[0] / "notebooks/01_mpi_basics.html").read_bytes(), "html.parser"
        )
        terms = soup.select("a.term[data-definition]")
        assert len(terms) > 5
        turning = [link["href"] for link in soup.select(".related-pages a")]
        assert turning == ["08_allreduce_animation.html", "00_start_here.html"]

    def test_in_chromium(self, built, browser):
        """No request leaves, no serious fault of access, search finds, terms open by keyboard."""
        folder = built[0]
        looked = ["index.html", "what_holds.html", "measured.html", "api/cluster.html"]
        looked += ["notebooks/glossary.html", *(f"notebooks/{name}.html" for name in NAMES)]
        problems = []
        contrast = {"type": "rule", "values": ["color-contrast"]}  # what another scheme changes
        for scheme, width, rules in (("light", 1280, WCAG), ("dark", 390, contrast)):
            context = browser.new_context(
                color_scheme=scheme, viewport={"width": width, "height": 844}
            )
            for name in looked:
                page, asked, errors = context.new_page(), [], []
                page.on("request", lambda request, asked=asked: asked.append(request.url))
                page.on("pageerror", lambda error, errors=errors: errors.append(str(error)))
                page.goto(f"file://{folder}/{name}")
                answer = Axe().run(page, options={"runOnly": rules}).response
                problems += [f"{scheme} {name}: {error}" for error in errors]
                problems += [
                    f"{scheme} {name}: asks for {url}"
                    for url in asked
                    if not url.startswith(("file:", "data:", "blob:"))
                ]
                problems += [
                    f"{scheme} {name}: {fault['id']} {fault['nodes'][0]['target']}"
                    for fault in answer["violations"]
                    if fault["impact"] in ("serious", "critical")
                ]
                wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
                if wide > 1:
                    problems.append(f"{scheme} {name}: {wide} pixels wider than the window")
                page.close()
            context.close()
        assert problems == []

    def test_search_and_terms_work_from_files_alone(self, built, browser):
        page = browser.new_page()
        page.goto(f"file://{built[0]}/search.html?q=straggler")
        page.wait_for_selector("#search-results li")
        assert page.locator("#search-results li a").count() >= 2
        page.goto(f"file://{built[0]}/notebooks/01_mpi_basics.html")
        term = page.locator("a.term").first
        term.focus()
        assert page.locator(".definition").inner_text() == term.get_attribute("data-definition")
        page.keyboard.press("Escape")
        assert page.locator(".definition").count() == 0
        page.close()
