"""Our part of Sphinx: formulas as MathML without a script, code in colour, terms explained.

A Sphinx extension; ``docs/conf.py`` names it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import math_core
from bs4 import BeautifulSoup
from docutils import nodes
from ipython_pygments_lexers import IPython3Lexer
from pygments.lexers.c_like import CudaLexer
from pygments.token import Keyword

from helpers.paths import ROOT


def setup(app: Any) -> dict[str, bool]:
    """Enter the renderer of formulas and what is done to each finished page."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    app.add_lexer("ipython3", CellLexer)
    app.connect("html-page-context", _finish, priority=900)  # after the theme has made its menu
    return {"parallel_read_safe": True, "parallel_write_safe": True}


UNITS = "%|ns|µs|ms|s|min|B|kB|KB|MB|GB|KiB|MiB|GiB|bytes|[kMG]bit/s|[kMGT]?B/s|[MGT]flop/s|GHz"
# A number's groups of digits, and a number and its unit, stay on one line.
APART = re.compile(rf"(?<=\d) (?=(?:\d{{3}}|{UNITS})(?![\w/]))")


class CellLexer(IPython3Lexer):
    """A cell's code, in colour below our magics too: IPython's lexer leaves what it does not know.

    Where the first line is ``%%cuda`` the rest is CUDA C, below ``%%ranks`` it is Python.
    """

    BELOW = {"%%ranks": IPython3Lexer, "%%cuda": CudaLexer}  # noqa: RUF012

    def get_tokens_unprocessed(self, text: str, *stack: Any) -> Any:
        magic, newline, code = text.partition("\n")
        below = self.BELOW.get(magic.split(" ")[0])
        if not below:
            yield from super().get_tokens_unprocessed(text, *stack)
            return
        yield 0, Keyword, magic + newline
        for place, kind, value in below().get_tokens_unprocessed(code):
            yield len(magic) + len(newline) + place, kind, value


class FormulaError(ValueError):
    """A formula that cannot be read; the message repeats it and says why."""


def mathml(latex: str, *, display: bool) -> str:
    """Return an element ``math`` for a formula without dollar signs, or raise FormulaError."""
    converter = math_core.LatexToMathML(fancy_error=False)
    try:
        return converter.convert_with_local_state(latex.strip(), displaystyle=display)
    except math_core.LatexError as error:
        raise FormulaError(f"cannot read the formula {latex.strip()!r}: {error}") from None


def _inline(visitor: Any, node: nodes.Node) -> None:
    visitor.body.append(mathml(node.astext(), display=False))
    raise nodes.SkipNode


def _display(visitor: Any, node: nodes.Node) -> None:
    visitor.body.append(mathml(node.astext(), display=True))
    raise nodes.SkipNode


def _finish(app: Any, page: str, template: str, context: dict, doctree: nodes.Node | None) -> None:
    """Mark links to the glossary with what they mean, and give the menu's headings a level."""
    if menu := context.get("furo_navigation_tree"):
        context["furo_navigation_tree"] = menu.replace(
            'role="heading"', 'role="heading" aria-level="2"'
        )
    soup = BeautifulSoup(context.get("body", ""), "html.parser")
    for words in soup.find_all(string=APART):
        if not words.find_parent(["pre", "code", "svg", "script", "style", "textarea"]):
            words.replace_with(APART.sub("\N{NO-BREAK SPACE}", words))
    for link in soup.select('a[href*="glossary.html#"]'):
        meaning = definitions().get(link["href"].partition("#")[2])
        if meaning:
            link["class"] = [*link.get("class", []), "term"]
            link["data-definition"] = meaning
    context["body"] = str(soup)


@cache
def definitions() -> dict[str, str]:
    """Return what the glossary says of each term, as plain text, by the anchor of its heading."""
    text = (ROOT / "notebooks" / "glossary.md").read_text("utf-8")
    found = {}
    for part in re.split(r"^## ", text, flags=re.M)[1:]:
        heading, _, body = part.partition("\n")
        words = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", " ".join(body.split()))
        anchor = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        found[anchor] = re.sub(r"[*`$]", "", words)
    return found
