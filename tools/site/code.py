"""Code on a page: in colour also where a cell prints it, and without comments for a linter."""

from __future__ import annotations

import copy
import re
import textwrap

import nbformat
from bs4 import BeautifulSoup
from nbformat import NotebookNode

FOR_TOOLS = re.compile(r"[ \t]*# (?:noqa|type: ignore|fmt: skip)\b.*$", re.MULTILINE)
PRINTED = re.compile(r"getsource\(|\.(source)\(\)")  # calls that print Python, and C
FENCE = "`" * 5  # docstrings have two


def with_code(notebook: NotebookNode) -> NotebookNode:
    """Return the notebook with the code that its cells print as blocks of code."""
    page = copy.deepcopy(notebook)
    for cell in page.cells:
        if cell.cell_type != "code":
            continue
        called = PRINTED.search(cell.source)
        cell.source = without_orders(cell.source)
        for place, output in enumerate(cell.outputs):
            drawn = output.get("data", {}).get("text/html", "")
            if called and output.output_type == "stream" and output.name == "stdout":
                cell.outputs[place] = _block(output.text, "c" if called[1] else "python")
            elif 'class="highlight"' in drawn:  # IPython.display.Code, in colours of its own
                text = BeautifulSoup(drawn, "html.parser").select_one(".highlight").text
                cell.outputs[place] = _block(text, "cuda" if "c++" in cell.source else "python")
    return page


def without_orders(code: str) -> str:
    """Return code without comments that are for a linter or a formatter.

    >>> without_orders("x = l  # noqa: E741\\ny = 2  # twice")
    'x = l\\ny = 2  # twice'
    """
    return FOR_TOOLS.sub("", code)


def _block(text: str, language: str) -> NotebookNode:
    code = textwrap.dedent(without_orders(text)).strip("\n")
    return nbformat.v4.new_output(
        "display_data", {"text/markdown": f"{FENCE}{language}\n{code}\n{FENCE}"}
    )
