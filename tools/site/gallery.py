"""The notebooks as cards with a picture each, in place of the README's table on the first page."""

from __future__ import annotations

import base64
import html
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from nbformat import NotebookNode

from tools.site.pictures import written

if TYPE_CHECKING:
    from PIL import Image


@dataclass(frozen=True)
class Choice:
    """What stands on a card: the output that has these words, and of a plot only a part.

    ``part`` is (left, top, right, bottom), from 0 to 1: a card is small, and a whole figure on it
    would be too small to read.
    """

    words: str
    part: tuple[float, float, float, float] = (0, 0, 1, 1)


CHOSEN = {
    "00": Choice("When each rank computes"),
    "01": Choice("Four ranks in a ring"),
    "02": Choice("loss of each scheme"),
    "03": Choice("forgets where it started"),
    "06": Choice("pillars of Debian"),
    "07": Choice("Bandwidth of each cache"),
    "09": Choice("The less memory, the more"),
    "10": Choice("How far replicas are apart"),
    "11": Choice("What each rank does when"),
    "12": Choice("by the size of the batch"),
    "15": Choice("Which lanes of the first warp", (0, 0, 1, 0.74)),
    "A1": Choice("leave each other their addresses", (0, 0, 1, 0.76)),
    "A2": Choice("workers fail in two ways"),
    "A3": Choice("by the number of hosts, links"),
    "A4": Choice("roofline"),
}
"""Of the other notebooks, and where no output has the words, it is the first plot, whole."""
MARGIN = 12  # pixels of white around what is drawn
LINES = 8  # of a text on a card
INTRODUCTION = (
    "Each card says what you will have done, in how many minutes, and what you need first. "
    "Exercises are counted as easy · medium · hard."
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
    needs = needs.strip()
    needed = f", {'after' if needs[-1].isdigit() else 'with'} {needs}" if needs else ""
    on_one_line = (exercises or "").replace(" ", "\N{NO-BREAK SPACE}")
    counted = f"; exercises {on_one_line}" if exercises else ""
    said = html.escape(f"{did[:1].upper()}{did[1:]}.")
    return (
        f'<a class="card" href="notebooks/{name}.html">{picture}'
        f"<strong>{name[:2]} {html.escape(titles.get(name, name))}</strong>"
        f"<span>{said}</span><small>{minutes} minutes{needed}{counted}</small></a>"
    )


def _picture(number: str, notebooks: Mapping[str, NotebookNode], folder: Path) -> str:
    """Return what stands on a notebook's card, or nothing; its picture goes to ``folder``."""
    outputs = [
        output
        for name, notebook in notebooks.items()
        if name.startswith(number)
        for cell in notebook.cells
        for output in cell.get("outputs", ())
    ]
    plots = [output for output in outputs if "image/png" in output.get("data", {})]
    choice = CHOSEN.get(number, Choice(""))
    for output in plots + [output for output in outputs if output not in plots]:
        data, text = output.get("data", {}), output.get("text", "")
        said = output.get("metadata", {}).get("image/png", {})
        if output in plots and choice.words in f"{said.get('title')} {said.get('axes')}":
            return _plot(output, folder / f"card-{number}", choice.part)
        for drawing in re.findall(r"<svg.*?</svg>", data.get("text/html", ""), re.DOTALL):
            if choice.words in drawing:
                return _drawing(drawing, folder / f"card-{number}.svg")
        if choice.words in text:
            lines = "\n".join(text.strip().splitlines()[:LINES])
            return f'<span class="text">{html.escape(lines)}</span>'
    return _plot(plots[0], folder / f"card-{number}") if plots else ""


def _plot(
    output: NotebookNode, stem: Path, part: tuple[float, float, float, float] = (0, 0, 1, 1)
) -> str:
    """Write a part of a plot, without its white margins; return it as an image.

    A plot in which nothing keeps its colours is dark in a dark theme, as in the notebook. A row of
    photographs, which keep theirs, becomes one in stripes, each of another: it has no paper.
    """
    from PIL import Image, ImageChops, ImageOps

    said = output.get("metadata", {}).get("image/png", {})
    whole = Image.open(io.BytesIO(base64.b64decode(output["data"]["image/png"]))).convert("RGB")
    kept = said.get("kept")
    if kept:
        photographs = [whole.crop(_pixels(box, whole)) for box in kept]
        drawn = photographs[0].copy()
        for place, photograph in enumerate(photographs[1:], 1):
            left = place * drawn.width // len(photographs)
            drawn.paste(photograph.crop((left, 0, drawn.width, drawn.height)), (left, 0))
    else:
        drawn = whole.crop(_pixels(part, whole))
        ink = ImageChops.difference(drawn, Image.new("RGB", drawn.size, "white")).getbbox()
        drawn = ImageOps.expand(drawn.crop(ink), MARGIN, "white")
    packed = io.BytesIO()
    drawn.save(packed, "png")
    file = written(stem, "image/png", packed.getvalue())
    words = html.escape(said.get("title") or said.get("axes") or "of the notebook")
    look = ' class="photograph"' if kept else ' data-kept="[]"' if kept == [] else ""
    return f'<img src="figures/{file.name}" alt="Plot: {words}" loading="lazy"{look}>'


def _pixels(part: Sequence[float], image: Image.Image) -> tuple[int, int, int, int]:
    left, top, right, bottom = part
    w, h = image.size
    return round(left * w), round(top * h), round(right * w), round(bottom * h)


def _drawing(drawing: str, file: Path) -> str:
    """Write a drawing of a page as a file of its own; return it as an image."""
    halo = "<style>text { paint-order: stroke; stroke: #fff; stroke-width: 3px }</style>"
    drawing = re.sub(r"^<svg(.*?)>", rf'<svg xmlns="http://www.w3.org/2000/svg"\1>{halo}', drawing)
    file.write_text(drawing, encoding="utf-8")
    said = re.search(r'aria-label="([^"]*)"', drawing)
    words = said[1].partition(".")[0] if said else "drawing of the notebook"
    return f'<img src="figures/{file.name}" alt="{words}" loading="lazy" data-kept="[]">'
