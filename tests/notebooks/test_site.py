"""The site: every page stands, explains its terms, is found, and can be used by everybody."""

import base64
import io
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest
from bs4 import BeautifulSoup
from PIL import Image

from helpers import records
from helpers.claims.recorded import recorded
from helpers.claims.written import typeset
from helpers.paths import ROOT
from tests.browser.looks import GLARING, glare, looked_at
from tests.notebooks import axe
from tests.notebooks.conftest import FEW
from tools import executed as executed_module
from tools.notebooks import is_appendix, sources
from tools.site import gallery, generated, instant, measured, single
from tools.site.code import with_code
from tools.site.faults import faults
from tools.site.gallery import with_gallery
from tools.site.pictures import NO_ALT, shared, with_pictures
from tools.site.rendering import definitions
from tools.site.sources import (
    HUB,
    PARTS,
    USE,
    moving,
    title,
    with_anchors,
    with_appendices,
    with_difficulty,
    with_solutions,
)

NAMES = [path.stem for path in sources(ROOT)]
LOOKED = ["index", "what_holds", "measured", "on_a_gpu", "search", "genindex", "TEACHING", "CARDS"]
LOOKED += [
    "CONTRIBUTING",
    "data/README",
    HUB.removesuffix(".md"),
    "api/index",
    "notebooks/glossary",
]
LOOKED += [f"docs/{name}" for name in USE] + [f"notebooks/{name}" for name in NAMES]
LOOKED += [*instant.PAGES, *(f"api/{name}" for name in generated.LIBRARIES)]
QUICK = ("index", *(f"api/{name}" for name in FEW), "notebooks/00_start_here")
SEEN = [
    pytest.param(name, marks=[pytest.mark.part(of="site")] * (name not in QUICK)) for name in LOOKED
]
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
CUT = """[...document.querySelectorAll('article .table-wrapper')].filter(
    table => table.offsetWidth > table.parentElement.clientWidth + 1).length"""
RED = """[...document.querySelectorAll('article .err')].filter(
    piece => getComputedStyle(piece).backgroundColor !== 'rgba(0, 0, 0, 0)').length"""
whole = [pytest.mark.notebook, pytest.mark.timeout(1800)]


def shown(metadata):
    output = nbformat.v4.new_output("display_data", {"image/png": PIXEL}, metadata=metadata)
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("plot()", outputs=[output])])


def test_a_plot_becomes_a_file_with_its_words(tmp_path):
    page = with_pictures(shown({"image/png": {"alt": 'a "b" < c'}}), "01_x", tmp_path)
    html = BeautifulSoup(page.cells[0].outputs[0].data["text/html"], "html.parser")
    assert html.figure["id"] == "figure-1"
    assert html.figcaption.a["href"] == "#figure-1"
    (picture,) = html("img")
    assert picture["alt"] == 'a "b" < c'
    file = tmp_path / picture["src"].rpartition("/")[2]
    with Image.open(file) as packed, Image.open(io.BytesIO(base64.b64decode(PIXEL))) as given:
        assert packed.format == "WEBP"
        assert packed.convert("RGB").getpixel((0, 0)) == given.convert("RGB").getpixel((0, 0))


@pytest.mark.parametrize(
    ("name", "said", "caption"),
    [
        ("00_x", {}, "Figure 0.1"),
        ("A2_x", {"title": "A ring & its time", "axes": "x"}, "Figure A2.1. A ring & its time"),
        ("01_x", {"title": "", "axes": "time by ranks"}, "Figure 1.1. Time by ranks"),
        (
            "02_x",
            {"title": "before; after", "axes": "loss by step"},
            "Figure 2.1. Loss by step: before; after",
        ),
        (
            "11_x",
            {"title": "a schedule (recorded; paced)", "axes": "time (ms)"},
            "Figure 11.1. A schedule (recorded; paced)",
        ),
        ("12_x", {"title": "s = 7: 4 bits"}, "Figure 12.1. s = 7: 4 bits"),
        ("02_x", {"title": "before; after", "axes": "loss; time"}, "Figure 2.1. Before; after"),
    ],
)
def test_a_caption_is_the_notebooks_number_and_the_title_or_the_axes(tmp_path, name, said, caption):
    page = with_pictures(shown({"image/png": {"alt": "a"} | said}), name, tmp_path)
    html = BeautifulSoup(page.cells[0].outputs[0].data["text/html"], "html.parser")
    assert html.figcaption.text == caption


@pytest.mark.parametrize(
    ("titles", "says"),
    [
        (["A ring", "A ring"], "A ring"),
        (["rank 3 is 4 times slower", "rank 3 is 40 times slower"], "rank 3 is"),
        (["step 5 of 12", "step 6 of 12"], ""),
        ([], ""),
    ],
)
def test_the_caption_of_a_control_has_what_all_its_titles_begin_with(titles, says):
    assert shared(titles) == says


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
        ('<script src="//cdn.example/x.js"></script>', "<script> fetches //cdn"),
        ("<svg><path/></svg>", "a.html: <svg><path></path></svg> has no name (aria-label)"),
        (
            '<svg aria-label="x"><image href="https://cdn.example/x.png"/></svg>',
            "<image> fetches https://cdn",
        ),
        ('<p style="background: url(//cdn.example/x.png)">', "a style fetches //cdn.example/x.png"),
        ("<style>@import 'https://fonts.example/f.css';</style>", "a style fetches https://fonts"),
        ('<img alt="x" src="gone.png">', "<img> asks for gone.png, which is not there"),
        ('<img src="b.html">', "b.html has no description"),
        ('<img src="b.html" alt="">', "b.html has no description"),
        ("x" * 2_000_000, "a.html has 2.00 MB, expected less than 2"),
        ("<article><p>| a | b |</p></article>", "'| a | b |': Markdown that is not rendered"),
        ("<article><ul><li>$$x$$</li></ul></article>", "'$$x$$': Markdown"),
        ("<article><table><tr><td>**x**</td></tr></table></article>", "'**x**': Markdown"),
        ("<article><p>&lt;details&gt;</p></article>", "'<details>': Markdown"),
        (f"<pre>{ROOT}/x</pre>", "a path of the builder's machine"),
        *(
            (f"<figcaption>Figure 8.1{words}</figcaption>", "not say what the picture shows")
            for words in ("", ". Latency", ". A; B; C", ". BUSY MACHINE: do not believe it")
        ),
        *(
            (f"<article><div class='cell_output'>{shown}</div></article>", why)
            for shown, why in (
                ("<pre>f: not attempted</pre>", "without its answer"),
                ("<pre>x: you predicted nothing; it is 3</pre>", "without its answer"),
                ("<pre>&lt;a.Op object at 0x7f&gt;</pre>", "Python's own name of an object"),
                ("<pre>got &lt;function f at 0x7f&gt;</pre>", "Python's own name of an object"),
                ("<pre>off by 2.220446049250313e-16</pre>", "a number of 16 digits or more"),
                ("<p>2,510,978,158,954,345,984</p>", "a number of 16 digits or more"),
                ("<pre>read , 2 threads</pre>", "blanks before a comma or a colon"),
                ("<pre>U   : radius 0</pre>", "blanks before a comma or a colon"),
                ("<table><tr><td>nan</td></tr></table>", "nan or None in a sentence or a table"),
                ("<p>the mean is None</p>", "nan or None in a sentence or a table"),
            )
        ),
    ],
)
def test_faults_are_found(tmp_path, html, says):
    (tmp_path / "a.html").write_text(f"<p>{html}</p>")
    (tmp_path / "b.html").write_text("<h1 id='here'>b</h1><a href='a.html'>back</a>")
    (found,) = faults(tmp_path)
    assert says in found


@pytest.mark.parametrize(
    "html",
    [
        '<svg role="img" aria-label="a ring"><svg/></svg>',
        "<svg><title>a ring</title></svg>",
        '<svg style="display: none;"><symbol><svg/></symbol></svg>',
        '<button aria-label="menu"><svg/></button>',
        '<div role="img" aria-label="a plot"><svg/></div>',
        "<article><p><code>**options</code></p><pre>| a |</pre></article>",
        "<article><div class='cell_output'><p><code>None</code></p><pre>nan</pre></div></article>",
        "<article><div class='cell_output'><i>0.01</i><i>0.1</i><i>1</i>" + "<i>10000</i>" * 5,
    ],
)
def test_a_picture_with_a_name_and_code_is_no_fault(tmp_path, html):
    (tmp_path / "a.html").write_text(html)
    assert faults(tmp_path) == []


def test_a_style_that_fetches_is_found(tmp_path):
    (tmp_path / "a.css").write_text("@import 'https://fonts.example/f.css';")
    assert faults(tmp_path) == ["a.css fetches https://fonts.example/f.css"]


def test_a_solution_stands_folded_below_its_exercise():
    graded = {"nbgrader": {"solution": True}}
    stub = nbformat.v4.new_code_cell("... # your code here", metadata=graded)
    text = "# BEGIN SOLUTION\nanswer = 42\n# END SOLUTION\nprint(answer)"
    shown = nbformat.v4.new_output("stream", text="42")
    solved = nbformat.v4.new_code_cell(text, metadata=graded, outputs=[shown], id=stub.id)
    notebook = nbformat.v4.new_notebook(cells=[solved])
    exercise, solution = with_solutions(notebook, nbformat.v4.new_notebook(cells=[stub])).cells
    assert exercise.source == "```ipython3\n... # your code here\n```"
    assert solution.source == "answer = 42\nprint(answer)"
    assert solution.metadata.tags == ["hide-input"]
    assert solution.outputs == [shown]
    assert notebook.cells[0].source == text


def test_code_that_a_cell_prints_is_a_block_of_code_without_orders_to_tools():
    from IPython.display import Code

    printed = nbformat.v4.new_output("stream", text="    x = f(y)  # type: ignore[x]\n    # why\n")
    drawn = Code("int i;  // one", language="c++")._repr_html_()
    listed = nbformat.v4.new_output("display_data", {"text/html": drawn, "text/plain": "<>"})
    other = nbformat.v4.new_output("stream", text="  4")
    cells = [
        nbformat.v4.new_code_cell(source, outputs=[output])
        for source, output in (
            ("print(inspect.getsource(f))  # noqa: E1", printed),
            ('Code(text, language="c++")', listed),
            ("print(a)", other),
        )
    ]
    page = with_code(nbformat.v4.new_notebook(cells=cells))
    shown = [cell.outputs[0].get("data", {}).get("text/markdown") for cell in page.cells]
    assert shown == [
        "`````python\nx = f(y)\n# why\n`````",
        "`````cuda\nint i;  // one\n`````",
        None,
    ]
    assert page.cells[0].source == "print(inspect.getsource(f))"
    assert page.cells[2].outputs == [other]
    assert cells[0].outputs == [printed]


def test_each_notebook_of_the_readme_has_a_card_with_its_picture(tmp_path):
    text = with_difficulty((ROOT / "README.md").read_text("utf-8"), {})
    said = {"image/png": {"title": "A < ring", "kept": []}}
    course, titles = {NAMES[0]: shown(said)}, dict.fromkeys(NAMES, "A < title")
    parts = with_appendices(NAMES)
    made = BeautifulSoup(with_gallery(text, parts, course, titles, tmp_path), "html.parser")
    cards = {card["href"]: card for card in made.select(".gallery > a.card")}
    assert set(cards) == {f"notebooks/{name}.html" for name in NAMES}
    first = cards.pop(f"notebooks/{NAMES[0]}.html")
    assert first.strong.text == "00 A < title"
    assert (tmp_path / Path(first.img["src"]).name).is_file()
    assert first.img["alt"] == "Plot: A < ring"
    assert first.img["data-kept"] == "[]", "dark in a dark theme"
    assert not any(card.img for card in cards.values())
    assert "| notebook |" not in made.text


def cell(*outputs):
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("", outputs=[*outputs])])


def test_a_card_has_the_output_that_was_chosen_or_the_first_plot(tmp_path, monkeypatch):
    output = nbformat.v4.new_output
    first, second = (
        output("display_data", {"image/png": PIXEL}, metadata={"image/png": {"title": title}})
        for title in ("one", "the other")
    )
    drawing = output("display_data", {"text/html": '<p><svg aria-label="a roof. B"><g/></svg></p>'})
    text = output("stream", text="from your < checkpoint\n")
    course = {"98_x": cell(first, second, drawing, text)}
    for words, shown in (
        ("other", 'alt="Plot: the other"'),
        ("absent", 'alt="Plot: one"'),
        ("a roof", 'card-98.svg" alt="a roof"'),
        ("checkpoint", "from your &lt; checkpoint</span>"),
    ):
        monkeypatch.setitem(gallery.CHOSEN, "98", gallery.Choice(words))
        assert shown in gallery._picture("98", course, tmp_path)
    ElementTree.parse(tmp_path / "card-98.svg")  # alone in its file it needs a namespace


@pytest.mark.parametrize("number", gallery.CHOSEN)
def test_what_a_card_shows_is_there(number):
    """Where no output had the words, the card would show the first plot."""
    (source,) = (ROOT / "notebooks" / "source").glob(f"{number}_*.py")
    drawn = [source, *(ROOT / "helpers" / "plots").rglob("*.py")]
    assert any(gallery.CHOSEN[number].words in path.read_text("utf-8") for path in drawn)


def test_photographs_on_a_card_are_stripes_of_one_without_paper(tmp_path):
    paper = Image.new("RGB", (100, 20), "white")
    paper.paste("red", (10, 5, 50, 15))
    paper.paste("blue", (60, 5, 100, 15))
    packed = io.BytesIO()
    paper.save(packed, "png")
    made = shown({"image/png": {"kept": [[0.1, 0.25, 0.5, 0.75], [0.6, 0.25, 1, 0.75]]}})
    plot = made.cells[0].outputs[0]
    plot.data["image/png"] = base64.b64encode(packed.getvalue()).decode()
    assert "data-kept" not in gallery._plot(plot, tmp_path / "card-98")
    with Image.open(tmp_path / "card-98.webp") as card:
        assert card.size == (40, 10)
        assert card.convert("RGB").getcolors() == [(200, (255, 0, 0)), (200, (0, 0, 255))]


def test_the_table_of_notebooks_counts_exercises_by_difficulty():
    said = [f"**Exercise.** *Difficulty {mark}, 5 minutes.* Go." for mark in ("●○○", "●●●", "●○○")]
    page = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(text) for text in said])
    table = "| notebook | minutes |\n|---|---|\n| [01_x](01_x.ipynb) | 5 |\n\n| other |\n|---|"
    lines = with_difficulty(table, {"01_x": page}).split("\n")
    assert lines[:3] == [
        "| notebook | minutes | exercises: easy · medium · hard |",
        "|---|---| --- |",
        "| [01_x](01_x.ipynb) | 5 | 2 · 0 · 1 |",
    ]
    assert lines[3:] == ["", "| other |", "|---|"]


def test_every_row_of_the_readme_has_its_exercises():
    course = {name: nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", 4) for name in NAMES}
    text = with_difficulty((ROOT / "README.md").read_text("utf-8"), course)
    rows = re.findall(r"^\| \[(\w+)\].* (\d+) · (\d+) · (\d+) \|$", text, re.M)
    assert sorted(row[0] for row in rows) == NAMES
    assert all(sum(map(int, row[1:])) for row in rows if not is_appendix(row[0]))


def test_every_notebook_has_its_place_in_the_menu():
    numbers = [number for part in PARTS.values() for number in part]
    assert sorted(numbers) == [name[:2] for name in NAMES if not is_appendix(name)]


def test_every_term_has_a_definition():
    headings = re.findall(r"^## (.+)$", (ROOT / "notebooks" / "glossary.md").read_text(), re.M)
    assert len(definitions()) == len(headings)
    assert all(len(text) > 20 for text in definitions().values())


def test_the_page_of_claims_has_every_claim():
    import claims

    text = generated.what_holds()
    for topic in claims.topics():
        for name, claim in claims.of(topic).items():
            (summary,) = re.findall(rf'id="{name}"><summary>(.*)</summary>', text)
            shown = BeautifulSoup(summary, "html.parser").text
            sentence = BeautifulSoup(typeset(claim.sentence), "html.parser").text
            effects = shown.partition(f": {sentence}")[2]
            assert not re.search(r"\^|\b[A-Za-z]_|\b1e-", shown)
            assert re.search(rf"\d.*; (margin|held) .*\d.* \({name}\)$", effects), "before it opens"
        assert f"[Notebook {topic[:2]}](notebooks/{topic}.ipynb)\n" in text
        row = re.search(rf"^\| \[{topic[:2]} .*\| (.*) \|$", text, re.M)
        assert sum(map(int, re.findall(r"\d+", row[0].rpartition(")")[2]))) == len(claims.of(topic))


def test_the_page_of_claims_has_every_effect_where_its_verdict_is():
    import claims

    found = recorded()
    grid = BeautifulSoup(generated.what_holds(), "html.parser").select_one(".strip")
    ids = {link["href"].removeprefix("#") for link in grid.select("a")}
    dots = 0
    for topic in claims.topics():
        for name, claim in claims.of(topic).items():
            assert (name in ids) == (claim.rival_share is None)
            for word, effect, low, high in (
                generated.in_margins(claim, found[name]) if name in ids else ()
            ):
                dots += 1
                expected = {
                    "holds": min(effect, 1) == 1 and low > 0,
                    "equal": -1 <= low <= high <= 1,
                }
                expected |= {"fails": max(effect, -1) == -1 and high < 0, "open": True}
                assert expected[word], f"{name}: {word} at {effect} ({low} to {high})"
    assert len(grid.select("b")) == dots


def test_every_library_of_a_notebook_has_a_page():
    used = {name.split(".")[1] for name in generated.imported()}
    assert used - {"exercises", "paths"} <= set(generated.LIBRARIES)
    lines = generated.api().splitlines()
    assert all(len(line.partition("): ")[2]) > 20 for line in lines if line.startswith("- ["))


def test_a_librarys_page_has_the_modules_that_notebooks_import():
    assert "automodule:: helpers.collectives.links\n   :members:" in generated.library(
        "collectives"
    )
    assert "automodule:: helpers.attention.model\n   :members:" in generated.library("attention")
    assert generated.library("timing").count("automodule") == 1


def test_the_page_of_figures_has_each_setting_of_a_suite_once(tmp_path, monkeypatch):
    def wrote(command, second, value, *suites):
        rows = (records.Row("passed", value, "tests"),)
        now = records.make(dict.fromkeys(suites, rows), command)
        records.write(replace(now, date=f"2026-01-01T00:00:0{second}Z"), tmp_path)

    wrote("python -m bench.conformance --ranks 2", 1, 111, "conformance")
    wrote("python -m bench.conformance --ranks 3", 2, 222, "conformance")
    wrote("python -m bench.conformance --ranks 2", 3, 333, "conformance")
    wrote("python -m bench links", 4, 444, "links")
    wrote("python -m bench cells links", 5, 555, "cells", "links")
    wrote("python -m bench gone", 4, 999, "a suite that is gone")
    monkeypatch.setattr(measured, "BENCH", tmp_path)
    text = measured.page()
    for suite in ("conformance", "links"):
        assert text.count(f"## {measured.TITLES[suite]}\n") == 1
    shown = [value for value in range(111, 1000, 111) if f"| {value}\u00a0tests |" in text]
    assert shown == [222, 333, 555]  # of equal settings the newer
    assert text.index("--ranks 2") < text.index("--ranks 3")  # whichever is the newer


def figures_of(rows, suite, folder, monkeypatch):
    records.write(records.make({suite: tuple(rows)}, f"python -m bench {suite}"), folder)
    monkeypatch.setattr(measured, "BENCH", folder)
    return measured.page()


def test_of_many_figures_the_best_and_the_worst_beside_each_other_stand_open(tmp_path, monkeypatch):
    row, given = records.Row, {"ranks": 4, "at": 0.5}
    rows = [
        row("send", float(took), "s", peer, 2.0, given | {"bytes": 1000 * took})
        for peer in ("gloo", "a library")
        for took in (3, 1, 8, 4)
    ]
    rows += [
        row("rate", 3.0, "GB/s", "limit of it", 4.0, given),
        row("wait", 3.0, "s", "", None, given),
    ]
    text = figures_of(rows, "links", tmp_path, monkeypatch)
    shown, folded = text.split("<details", 1)
    ends = [("2.0", "1,000 bytes"), ("0.25\u00a0▼", "8,000 bytes")]
    assert re.findall(r"^\| send \| (.*?) \|.* \| (.*?) \|$", shown, re.M) == [*ends, *ends]
    assert re.search(r"^\| rate \| 0.75\s▼ \|", shown, re.M), "of a rate more is better"
    assert ", 4 ranks:" in shown, "what all have is said once"
    assert folded.count("| send |") == 8
    assert "All figures: 10 rows" in folded
    dots = BeautifulSoup(shown, "html.parser").select(".ratios b")
    assert len(dots) == 9
    assert len([dot for dot in dots if "worse" in dot.get("class", [])]) == 7
    assert measured.WHY["links"] in text


def test_of_many_figures_beside_many_others_only_the_worst_stand_open(tmp_path, monkeypatch):
    rows = [
        records.Row("send", took, "s", f"library {peer}", 2.0)
        for peer in range(measured.OPEN // 2 + 1)
        for took in (1.0, 3.0)
    ]
    shown = figures_of(rows, "links", tmp_path, monkeypatch).partition("<details")[0]
    assert re.findall(r"^\| send \| (.*?) \|", shown, re.M) == ["0.67\u00a0▼"] * (len(rows) // 2)
    few = figures_of(rows[2:], "links", tmp_path / "few", monkeypatch).partition("<details")[0]
    assert few.count("| send |") == len(rows) - 2


def test_the_page_of_figures_says_why_ours_is_worse(tmp_path, monkeypatch):
    text = measured.page()
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        if measured.WORSE in part.partition("<details")[0]:
            suite = next(key for key, one in measured.TITLES.items() if part.startswith(f"{one}\n"))
            assert measured.WHY[suite] in part
    rows = [records.Row("passed", 1, "tests", "gloo", 1)]
    rows += [
        records.Row(
            name, 0.0, "1", "gloo", 0.0, {"ours": "failed", "gloo": "failed", "our reason": reason}
        )
        for name, reason in (("a", "Rank 2 is out of range"), ("b", "no NCCL"), ("c", "no idea"))
    ]
    text = figures_of(rows, "conformance", tmp_path, monkeypatch)
    assert (
        "need more ranks (1), a GPU or NCCL (1), we do not know what (1); gloo passes none of"
        in text
    )


def test_an_executed_notebook_is_kept_until_it_changes(tmp_path, monkeypatch):
    runs = []
    path = tmp_path / "n.ipynb"

    def execute(source, kind, *, states):
        assert (kind, states) == ("solved", executed_module.SECONDS), "a page's widgets play"
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


def test_a_title_is_the_first_heading_without_marks():
    cells = [nbformat.v4.new_markdown_cell(text) for text in ("text", "## a\n\n# The *b* of $c$")]
    assert title(nbformat.v4.new_notebook(cells=cells)) == "The b of c"
    assert title(nbformat.v4.new_notebook(cells=cells[:1])) == ""


PLAYERS = [f"{page.rpartition('/')[2]}.html" for page in instant.PAGES]
SITE = {
    "notebooks/01_a.html": """<title>A</title><link rel="stylesheet" href="../_static/a.css?v=1">
        <link rel="next" href="02_b.html"><script src="../_static/furo.js"></script>
        <script src="../_static/searchtools.js"></script><form action="../search.html"></form>
        <body><ul class="sidebar-tree"><li><a href="02_b.html">B</a></li>
        <li><a href="glossary.html">G</a></li></ul><img alt="x" src="../figures/p.png">
        <a href="glossary.html#t">term</a> <a href="02_b.html">other</a> <a href="#here">here</a>
        <a href="https://mpi-forum.org">out</a> <h1 id="here">A</h1></body>""",
    "notebooks/glossary.html": "<body><h1 id='t'>T</h1><a href='../index.html'>up</a></body>",
    "index.html": "<body><a href='notebooks/01_a.html'>A</a></body>",
    **{f"{page}.html": "<body><script src='players.js'></script>" for page in instant.PAGES},
    "players/players.js": "let play;",
    "_static/a.css": "p > b { color: red }",
    "_static/furo.js": "if (1 < 2) document.title = '</script>'",
}


@pytest.fixture
def site(tmp_path):
    for name, text in SITE.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "site" / "figures").mkdir()
    (tmp_path / "site" / "figures" / "p.png").write_bytes(b"png")
    return tmp_path / "site"


def test_a_single_page_has_all_that_it_needs_and_no_link_to_what_is_not_there(site, tmp_path):
    made = tmp_path / "html"
    assert {path.name for path in single.write(site, ["01_a"], made)} == {
        "01_a.html",
        "glossary.html",
        "index.html",
        *PLAYERS,
    }
    assert faults(made) == []
    text = (made / "01_a.html").read_text()
    assert "p > b { color: red }" in text
    assert "document.title = '<\\/script>'" in text
    soup = BeautifulSoup(text, "html.parser")
    assert soup.img["src"] == "data:image/png;base64,cG5n"
    assert [link["href"] for link in soup.select("a")] == [
        "glossary.html",
        "glossary.html#t",
        "#here",
        "https://mpi-forum.org",
    ]
    assert "other" in soup.text
    assert not soup.select("form, script[src], link")


def test_single_pages_of_other_notebooks_stay_and_are_linked_to(site, tmp_path):
    made = tmp_path / "html"
    made.mkdir()
    (made / "02_b.html").write_text("made before")
    single.write(site, ["01_a"], made)
    (site / "notebooks" / "02_b.html").write_text("")
    single.write(site, ["01_a"], made)
    assert (made / "02_b.html").read_text() == "made before"
    links = [a["href"] for a in BeautifulSoup((made / "01_a.html").read_text(), "html.parser")("a")]
    assert links.count("02_b.html") == 2
    assert faults(made) == []


@pytest.mark.notebook
@pytest.mark.browser
@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_a_moving_picture_can_be_stopped(browser, tmp_path, motion):
    css = (ROOT / "docs" / "static" / "course.css").read_text("utf-8")
    (tmp_path / "a.html").write_text(f"<style>{css}</style><p>{moving('ring', 'a ring')}</p>")
    for ending in ("gif", "png"):
        (tmp_path / f"ring.{ending}").write_bytes(base64.b64decode(PIXEL))
    context = browser.new_context(reduced_motion=motion)
    page = context.new_page()
    page.goto((tmp_path / "a.html").as_uri())
    seen = (
        "[...document.images].filter((i) => i.checkVisibility())"
        ".map((i) => i.currentSrc.split('.').at(-1)).join()"
    )
    switch = page.get_by_label("Stop the picture")
    if motion == "reduce":
        assert page.evaluate(seen) == "png"
        assert not switch.is_visible()
    else:
        assert page.evaluate(seen) == "gif"
        page.keyboard.press("Tab")
        page.keyboard.press("Space")
        assert page.evaluate(seen) == "png"
        assert page.get_by_role("img", name="a ring").count() == 1
        page.keyboard.press("Space")
        assert page.evaluate(seen) == "gif"
    context.close()


class TestWhole:
    pytestmark = whole

    @pytest.mark.parametrize(
        "libraries",
        [FEW, pytest.param(generated.LIBRARIES, marks=pytest.mark.part(of="site"))],
        ids=["few libraries", "all"],
    )
    def test_sphinx_has_no_complaint_and_no_page_a_fault(self, built, libraries):
        folder, complaint = built
        assert complaint == ""
        assert faults(folder) == []
        pages = {path.relative_to(folder).as_posix() for path in folder.rglob("*.html")}
        assert {f"notebooks/{name}.html" for name in NAMES} <= pages
        assert {f"api/{name}.html" for name in libraries} <= pages
        assert {f"{page}.html" for page in instant.PAGES} <= pages
        assert list(folder.rglob(".*")) == [], "what Sphinx keeps for itself"

    @pytest.mark.part(of="site")
    def test_single_pages_stand_alone_and_play(self, built, browser, tmp_path):
        pages = single.write(built[0], NAMES, tmp_path / "html")
        assert faults(tmp_path / "html") == []
        assert len(pages) == len(NAMES) + 2 + len(PLAYERS)
        page, trouble = browser.new_page(), []
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("request", lambda one: one.url.startswith("http") and trouble.append(one.url))
        page.goto((tmp_path / "html" / "08_allreduce_animation.html").as_uri())
        page.get_by_test_id("animation-last").first.click()
        frame = page.get_by_test_id("animation-frame").first.inner_text()
        assert re.fullmatch(r"step (\d+) of \1", frame)
        page.get_by_role("link", name="Glossary").first.click()
        assert page.url.endswith("glossary.html")
        page.close()
        assert trouble == []

    def test_terms_explain_themselves_and_pages_lead_on(self, built):
        soup = BeautifulSoup(
            (built[0] / "notebooks/01_mpi_basics.html").read_bytes(), "html.parser"
        )
        terms = soup.select("a.term[data-definition]")
        assert len(terms) > 5
        turning = [link["href"] for link in soup.select(".related-pages a")]
        assert turning == ["08_allreduce_animation.html", "00_start_here.html"]

    @pytest.mark.parametrize("name", SEEN)
    def test_in_chromium(self, built, browser, name):
        """No request leaves, no script fails, no serious fault of access, nothing too wide."""
        problems = []
        # what another scheme changes is the contrast; a projector is wide
        for scheme, width, rules in (
            ("light", 1280, axe.WCAG),
            ("dark", 390, axe.CONTRAST),
            ("light", 1920, None),
        ):
            context = browser.new_context(
                color_scheme=scheme, viewport={"width": width, "height": 844}
            )
            page, asked, found = context.new_page(), [], []
            page.on("request", lambda request, asked=asked: asked.append(request.url))
            page.on("pageerror", lambda error, found=found: found.append(str(error)))
            page.goto(f"file://{built[0]}/{name}.html")
            found += axe.serious(page, rules) if rules else []
            found += ["sets a cookie"] if context.cookies() else []
            found += [
                f"asks for {url}"
                for url in asked
                if not url.startswith(("file:", "data:", "blob:"))
            ]
            wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            if wide > 1:
                found.append(f"{wide} pixels wider than the window")
            if cut := page.evaluate(CUT):
                found.append(f"{cut} tables lose an edge: they are wider than what holds them")
            if red := page.evaluate(RED):
                found.append(f"{red} pieces of a listing are painted as mistakes")
            problems += [f"{scheme}: {fault}" for fault in found]
            context.close()
        assert problems == []

    def test_nothing_glares_in_the_dark(self, built, browser):
        page = browser.new_page(color_scheme="dark")
        seen = []
        for name, shown in (("02_sgd_sync_async", "#figure-1 img"), ("08_allreduce_animation", "")):
            page.goto(f"file://{built[0]}/notebooks/{name}.html")
            for box in page.locator(shown or "figure img, .picture").all()[:4]:
                box.scroll_into_view_if_needed()
                page.wait_for_timeout(200)
                seen.append(glare(looked_at(box)))
        page.close()
        assert len(seen) == 5
        assert max(seen) < GLARING

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
