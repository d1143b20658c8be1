"""The notebooks as cards with a picture each, in place of the README's table on the first page."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from nbformat import NotebookNode

from tools.site.pictures import written

CHOSEN = {"02": 5, "03": 1, "06": 1, "09": 1, "10": 5, "11": 6, "12": 2, "13": 1}
"""Which of a notebook's plots stands on its card, where it is not the first."""
INTRODUCTION = (
    "Each card says what you will have done at its end, in how many minutes, and after which "
    "notebook. Exercises are counted as easy · medium · hard."
)
ROW = re.compile(r"\| \[(\w+)\]\([^)]*\) \| (.*?) \| (\d+) \| (.*?)\|(?: (.*?) \|)?$")


def with_gallery(
    text: str,
    parts: Mapping[str, Sequence[str]],
    notebooks: Mapping[str, NotebookNode],
    titles: Mapping[str, str],
    folder: Path,
) -> str:
    """Return a page with cards in place of its table of notebooks; pictures go to ``folder``."""
    rows = [found.groups() for line in text.split("\n") if (found := ROW.match(line))]
    by_number = {name[:2]: (name, *rest) for name, *rest in rows}
    cards = [f"<p>{INTRODUCTION}</p>"]
    for part, numbers in parts.items():
        inside = [
            _card(*by_number[number], titles, _picture(number, notebooks, folder))
            for number in numbers
            if number in by_number
        ]
        if inside:
            cards += [f"<h3>{html.escape(part)}</h3>", '<div class="gallery">', *inside, "</div>"]
    table = re.compile(r"^\| notebook \|.*\n(?:\|.*\n)+", re.M)
    return table.sub(lambda _: "\n".join(cards) + "\n", text, count=1)


def _card(
    name: str,
    did: str,
    minutes: str,
    needs: str,
    exercises: str,
    titles: Mapping[str, str],
    picture: str,
) -> str:
    needed = f", after {needs.strip()}" if needs.strip() else ""
    on_one_line = (exercises or "").replace(" ", "\N{NO-BREAK SPACE}")
    counted = f"; exercises {on_one_line}" if exercises else ""
    said = html.escape(f"{did[:1].upper()}{did[1:]}.")
    return (
        f'<a class="card" href="notebooks/{name}.html">{picture}'
        f"<strong>{name[:2]} {html.escape(titles.get(name, name))}</strong>"
        f"<span>{said}</span><small>{minutes} minutes{needed}{counted}</small></a>"
    )


def _picture(number: str, notebooks: Mapping[str, NotebookNode], folder: Path) -> str:
    """Write the chosen plot of an executed notebook; return it as an image, or nothing.

    A plot in which nothing keeps its colours is dark in a dark theme, as in the notebook.
    """
    plots = [
        output
        for name, notebook in notebooks.items()
        if name.startswith(number)
        for cell in notebook.cells
        for output in cell.get("outputs", ())
        if "image/png" in output.get("data", {})
    ]
    if not plots:
        return ""
    chosen = plots[min(CHOSEN.get(number, 0), len(plots) - 1)]
    raw, said = chosen["data"]["image/png"], chosen.get("metadata", {}).get("image/png", {})
    file = written(folder / f"card-{number}", "image/png", base64.b64decode(raw))
    words = html.escape(said.get("title") or said.get("axes") or "of the notebook")
    dark = ' data-kept="[]"' if said.get("kept") == [] else ""
    return f'<img src="figures/{file.name}" alt="Plot: {words}" loading="lazy"{dark}>'
