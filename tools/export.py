"""Execute the reader's notebooks and export each as one page (``make html``), in ``build/html/``.

A page needs no network and no kernel: formulas become MathML, pictures and animations stand in
the page, and where a notebook shows a widget the page shows what the widget showed. Each page is
checked: under 2 MB, nothing fetched from elsewhere, every link between the pages leads somewhere.
"""

from __future__ import annotations

import argparse
import html
import re
import sys
from collections.abc import Collection
from pathlib import Path
from urllib.parse import unquote, urlsplit

import math_core
import nbformat
from bs4 import BeautifulSoup
from jinja2 import pass_context
from nbconvert.exporters import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode

from helpers.paths import ROOT
from tools import run
from tools.executed import executed
from tools.notebooks import SourceError, sources
from tools.widgets import without_widgets

MAX_BYTES = 2_000_000
TEMPLATE = """
{%- extends 'lab/index.html.j2' -%}
{%- block html_head_js -%}{%- endblock -%}
{%- block jupyter_widgets -%}{%- endblock -%}
{%- block html_head_js_mathjax -%}{%- endblock -%}
{%- block html_head_js_mermaidjs -%}{%- endblock -%}
{%- block extra_css -%}
<style>
main { max-width: 62rem; margin: 0 auto; padding: 0 1rem; }
nav.course { display: flex; gap: 1.5rem; padding: 1rem 0; font-family: sans-serif; }
math { font-size: 1.1em; }
math[display="block"] { margin: 0.6em 0; overflow-x: auto; overflow-y: hidden; }
.jp-RenderedHTMLCommon details { margin: 0.5em 0; }
.jp-RenderedHTMLCommon .highlight pre, .jp-RenderedHTMLCommon .highlight pre * {
  font-family: var(--jp-code-font-family, monospace);
}
</style>
{%- endblock -%}
{%- block body_header -%}
{{ super() }}
<nav class="course">{{ resources.course_navigation }}</nav>
{%- endblock -%}
"""


class ExportError(RuntimeError):
    """A page cannot be made, or would not stand on its own; the message names it and says why."""


class PageRenderer(IPythonRenderer):
    """nbconvert's Markdown, with MathML (which browsers draw themselves) in MathJax's place."""

    def inline_math(self, body: str) -> str:
        """Return MathML for a formula within a line."""
        return mathml(body, display=False)

    def block_math(self, body: str) -> str:
        """Return MathML for a formula on a line of its own."""
        return mathml(body, display=True)

    def latex_environment(self, name: str, body: str) -> str:
        """Return MathML for an environment that stands without dollar signs."""
        return mathml(f"\\begin{{{name}}}{body}\\end{{{name}}}", display=True)


class PageExporter(HTMLExporter):
    """nbconvert's JupyterLab page without anything that a CDN would serve."""

    def __init__(self, **kwargs):
        super().__init__(raw_template=TEMPLATE, **kwargs)

    @pass_context
    def markdown2html(self, context, source):
        """Render Markdown with :class:`PageRenderer`."""
        return markdown(source, context.get("cell", {}).get("attachments", {}))


def mathml(latex: str, *, display: bool) -> str:
    """Return MathML for a formula; raises ExportError for one that cannot be read."""
    converter = math_core.LatexToMathML(fancy_error=False)
    try:
        return converter.convert_with_local_state(latex.strip(), displaystyle=display)
    except math_core.LatexError as error:
        raise ExportError(f"cannot read the formula {latex.strip()!r}: {error}") from None


def markdown(source: str, attachments: dict | None = None) -> str:
    """Return HTML for a Markdown cell; raises ExportError for a bad formula."""
    renderer = PageRenderer(escape=False, attachments=attachments or {}, anchor_link_text="¶")
    return MarkdownWithMath(renderer=renderer).render(source)


def page(notebook: NotebookNode, name: str, navigation: str = "") -> str:
    """Return an executed notebook as one HTML page; links between notebooks lead to pages."""
    notebook = without_widgets(notebook)
    notebook.metadata.title = title(notebook) or name
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            latex = output.get("data", {}).pop("text/latex", None)
            if latex and not output.data.keys() & {"text/html", "image/png", "image/svg+xml"}:
                output.data["text/html"] = mathml(latex.strip().strip("$"), display=True)
    resources = {"metadata": {"name": name}, "course_navigation": navigation}
    text, _ = PageExporter().from_notebook_node(notebook, resources=resources)
    soup = BeautifulSoup(text, features="html.parser")
    for link in soup.select("a[href]"):
        parts = urlsplit(link["href"])
        if not parts.scheme and not parts.netloc:
            link["href"] = re.sub(r"\.(ipynb|md)(?=#|$)", ".html", link["href"])
    return str(soup)


def title(notebook: NotebookNode) -> str:
    """Return the notebook's first heading, without marks ('' if there is none)."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and (found := re.search(r"^# +(.+)$", cell.source, re.M)):
            return re.sub(r"[*`$]", "", found[1]).strip()
    return ""


def faults(pages: dict[str, str], later: Collection[str] = ()) -> list[str]:
    """Return a sentence for each page that is too large, needs the network, or links to nothing.

    ``later`` are pages that another call makes: a link to one of them is no fault.
    """
    soups = {name: BeautifulSoup(text, features="html.parser") for name, text in pages.items()}
    anchors = {
        name: {tag.get("id") or tag.get("name") for tag in soup.select("[id], a[name]")}
        for name, soup in soups.items()
    }
    found = []
    for name, soup in soups.items():
        size = len(pages[name].encode())
        if size >= MAX_BYTES:
            found.append(f"{name} has {size / 1e6:.2f} MB, expected less than {MAX_BYTES / 1e6:g}")
        for tag in soup.select("[src], link[href], image[href], use[href]"):
            address = tag.get("src") or tag.get("href")
            if not address.startswith(("data:", "#")):
                found.append(f"{name}: <{tag.name}> fetches {address[:80]}")
        for style in re.findall(r"(?:url\(|@import)\s*[\"']?(https?:[^\s\"')]+)", pages[name]):
            found.append(f"{name}: a style fetches {style[:80]}")
        for link in soup.select("a[href]"):
            parts = urlsplit(link["href"])
            if parts.scheme or parts.netloc:
                continue
            target = unquote(parts.path) or name
            # a browser looks for the anchor as it is written, then decoded
            either = {parts.fragment, unquote(parts.fragment)}
            if target not in pages and target in later:
                continue
            if target not in pages:
                found.append(f"{name} links to {link['href']}, and there is no such page")
            elif parts.fragment and not either & anchors[target]:
                found.append(f"{name} links to {link['href']}, and {target} has no such heading")
    return found


def site(
    notebooks: dict[str, NotebookNode], glossary: str = "", there: dict[str, str] | None = None
) -> dict[str, str]:
    """Return the pages by file name: one for each executed notebook, the glossary, the contents.

    The contents list as well what is ``there`` from before: the titles by name.
    """
    names = list(notebooks)
    pages = {}
    for index, name in enumerate(names):
        links = ['<a href="index.html">Contents</a>']
        for label, other in (("Previous", index - 1), ("Next", index + 1)):
            if 0 <= other < len(names):
                links.append(f'<a href="{names[other]}.html">{label}</a>')
        if glossary:
            links.append('<a href="glossary.html">Glossary</a>')
        pages[f"{name}.html"] = page(notebooks[name], name, "".join(links))
    back = '<a href="index.html">Contents</a>'
    if glossary:
        pages["glossary.html"] = page(_text(glossary), "glossary", back)
    titles = (there or {}) | {name: title(notebooks[name]) or name for name in names}
    rows = [f"- [{html.escape(titles[name])}]({name}.html)" for name in sorted(titles)]
    rows += ["- [Glossary](glossary.html)"] if glossary else []
    pages["index.html"] = page(_text("# Contents\n\n" + "\n".join(rows)), "index")
    return pages


def _text(source: str) -> NotebookNode:
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(source)])


def main(arguments: list[str] | None = None) -> int:
    """Command line: execute, export, check; 1 if a notebook fails or a page has a fault."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("only", nargs="*", metavar="NN", help="numbers or names (default: all)")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "html")
    options = parser.parse_args(arguments)
    glossary = ROOT / "notebooks" / "glossary.md"
    try:
        names = [source.stem for source in sources(ROOT, tuple(options.only))]
        notebooks, problems = executed(names)
        text = glossary.read_text(encoding="utf-8") if glossary.exists() else ""
        others = {path.name: path.read_text("utf-8") for path in options.output.glob("*.html")}
        course = {source.stem: source for source in sources(ROOT)}
        there = {
            name: title(nbformat.read(run.location(name, "reader"), 4)) or name
            for name in course
            if f"{name}.html" in others
        }
        pages = site(notebooks, text, there)
    except (SourceError, ExportError) as error:
        print(error, file=sys.stderr)
        return 1
    found = faults({**others, **pages}, {f"{name}.html" for name in course})
    problems += [
        fault for fault in found if fault.split(".")[0] in {*notebooks, "glossary", "index"}
    ]
    options.output.mkdir(parents=True, exist_ok=True)
    for name, content in pages.items():
        (options.output / name).write_text(content, encoding="utf-8")
        print(f"{options.output / name}  {len(content.encode()) / 1e6:.2f} MB")
    print("\n".join(problems), file=sys.stderr, end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
