"""Every formula and every link in the notebooks' text, without executing anything."""

import re
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from helpers.paths import ROOT
from tools.notebooks import build, sources
from tools.site.faults import faults
from tools.site.rendering import APART, FormulaError, mathml
from tools.site.sources import PARTS

TEXTS = [*sources(ROOT), ROOT / "notebooks" / "glossary.md"]


class Renderer(IPythonRenderer):
    """Headings with JupyterLab's anchors, formulas as the site has them."""

    def inline_math(self, body: str) -> str:
        return mathml(body, display=False)

    def block_math(self, body: str) -> str:
        return mathml(body, display=True)

    def latex_environment(self, name: str, body: str) -> str:
        return mathml(f"\\begin{{{name}}}{body}\\end{{{name}}}", display=True)


def markdown(source: str) -> str:
    return MarkdownWithMath(renderer=Renderer(escape=False, anchor_link_text="¶")).render(source)


def as_html(path) -> str:
    if path.suffix == ".md":
        return markdown(path.read_text(encoding="utf-8"))
    _, solved = build(path)
    return "\n".join(markdown(cell.source) for cell in solved.cells if cell.cell_type == "markdown")


def as_read(path) -> str:
    """Return the name by which a link in a notebook reaches the text."""
    return path.name if path.suffix == ".md" else f"{path.stem}.ipynb"


@pytest.fixture(scope="module")
def pages():
    return {as_read(path): BeautifulSoup(as_html(path), "html.parser") for path in TEXTS}


def test_each_notebook_leads_to_the_next_of_the_menu():
    by_number = {path.stem[:2]: path for path in sources(ROOT)}
    order = [number for numbers in PARTS.values() for number in numbers]
    following = [f"{by_number[number].stem}.ipynb" for number in order[1:]] + ["glossary.md"]
    texts = {number: by_number[number].read_text("utf-8") for number in order}
    found = [re.findall(r"^# \*\*Next\*\*:.*?\]\((.*?)\)", texts[n], re.M) for n in order]
    assert found == [[name] for name in following]


def test_the_next_notebook_is_named_as_in_the_menu():
    texts = {path.stem: path.read_text("utf-8") for path in sources(ROOT)}
    titles = {stem: re.search("^# # (.*)", text, re.M)[1] for stem, text in texts.items()}
    for stem, text in texts.items():
        for said, name in re.findall(r"^# \*\*Next\*\*: \[(.*?)\]\((\w+)\.ipynb", text, re.M):
            assert said == f"{name[:2]} {titles[name]}", stem


@pytest.mark.parametrize("name", [as_read(path) for path in TEXTS])
def test_links_lead_somewhere(name, pages):
    bad = []
    for link in pages[name].select("a[href]"):
        parts = urlsplit(link["href"])
        target, either = unquote(parts.path) or name, [parts.fragment, unquote(parts.fragment)]
        if parts.scheme:
            if parts.scheme != "https":
                bad.append(link["href"])
        elif target not in pages or (parts.fragment and not pages[target].find(id=either)):
            bad.append(link["href"])
    assert bad == []


@pytest.mark.parametrize("path", TEXTS, ids=as_read)
def test_sections_are_named_and_not_numbered(path):
    """A number goes stale when a section moves; a link to a heading is followed above."""
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"^(?:# )?#+ \d+\. .*$|.{20}\bsections? \d+.*$", text, re.M | re.I) == []


def test_glossary_is_in_order_and_in_lower_case():
    text = (ROOT / "notebooks" / "glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^## (.+)$", text, re.M)
    assert terms == sorted(terms)
    assert [term for term in terms if term != term.lower()] == []


@pytest.mark.parametrize(
    "latex",
    [r"\frac{K}{N}\beta", r"\begin{aligned} a &= b \\ &= c \end{aligned}", r"\alpha < \beta"],
)
def test_formulas_become_mathml(latex):
    made = BeautifulSoup(mathml(latex, display=True), "html.parser").math
    assert made["display"] == "block"
    assert "\\" not in made.text


@pytest.mark.parametrize("latex", [r"\nonsense{x}", r"\frac{1"])
def test_a_formula_that_cannot_be_read_is_repeated(latex):
    with pytest.raises(FormulaError, match=f"cannot read the formula {re.escape(repr(latex))}"):
        mathml(latex, display=False)


STYLE = ROOT / "docs" / "static" / "formulas.css"
HEIGHTS = """() => [...document.querySelectorAll("msup")].map(power => {
    const [base, exponent] = [...power.children].map(part => part.getBoundingClientRect());
    return [exponent.bottom - base.top, base.height, exponent.height];
})"""


@pytest.fixture(scope="module")
def written():
    style = f"{STYLE.read_text('utf-8')}math {{ font-size: 1.1em; }}"
    within, alone = mathml("k^2 + 1", display=False), mathml(r"Q = n^{2} \sqrt{m}", display=True)
    return f"<!doctype html><style>{style}</style><p>In a line {within}, and alone:</p>{alone}"


def test_a_page_with_the_font_in_it_fetches_nothing(written, tmp_path):
    (tmp_path / "heights.html").write_text(written)
    assert faults(tmp_path) == []


@pytest.mark.parametrize("sized", ["math { font-size: 1.1em; }", "math { font-size: 3em; }"])
def test_exponents_stand_beside_what_they_belong_to(written, browser, sized):
    alone = written.replace("math { font-size: 1.1em; }", sized)
    alone = re.sub(r'"[^"]* Math[^"]*", ', "", alone)  # as on a machine that has none of them
    alone = alone.replace(", math; }", ", serif; }").replace("font-family: math;", "")
    tab = browser.new_page()
    tab.set_content(alone)
    tab.evaluate("document.fonts.ready")
    found = tab.evaluate(HEIGHTS)
    tab.close()
    assert len(found) == 2
    for overlap, base, exponent in found:
        assert 0.2 * base < overlap < base, "the exponent floats above its base, or stands too low"
        assert exponent <= base


def test_a_number_and_its_unit_stay_on_one_line():
    assert APART.sub("~", "65 000 B, 9 MB/s in 5 s, 2 steps") == "65~000~B, 9~MB/s in 5~s, 2 steps"
