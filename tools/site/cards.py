"""A card for each lesson, for the teacher, and a picture of which notebook needs which.

Both are made from the notebooks' own words, so that they say what the notebooks say.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from nbformat import NotebookNode

INTRODUCTION = """# A card for each lesson

Run the notebook's set-up, then the lesson's cells from its heading on: no lesson needs an earlier one, and each was tried alone. Let everybody type a prediction before you run the cell below it. At the end let a student say the answer. Where the screen shows something else than the notebook's page here, [Troubleshooting](docs/TROUBLESHOOTING.md) explains the messages. [Teaching](TEACHING.md) has the plans for whole lessons, and the board on which a class predicts together.

## What needs what

An arrow leads from a notebook to those that need it.
"""  # noqa: E501


PAGE = "var(--color-background-primary, Canvas)"  # hides the arrows that pass behind a box


@dataclass
class Card:
    """What a teacher needs to know of one lesson."""

    heading: str
    minutes: str = ""
    predictions: list[str] = field(default_factory=list)
    exercises: list[str] = field(default_factory=list)
    answer: str = ""


def cards(notebook: NotebookNode) -> list[Card]:
    """Return the lessons of a notebook."""
    found: list[Card] = []
    for cell in notebook.cells:
        if cell.cell_type != "markdown":
            continue
        for block in re.split(r"\n\s*\n", cell.source):
            if block.startswith("## "):
                heading = block.splitlines()[0][3:]
                found.append(Card(heading if heading.startswith("Lesson") else ""))
            elif found:
                _read(block, found[-1])
    return [card for card in found if card.heading]


def _read(block: str, card: Card) -> None:
    """Add to a card what a paragraph of its lesson says."""
    if not card.minutes and (said := re.match(r"\*(?:About )?(\d+) minutes", block)):
        card.minutes = said[1]
    if said := re.match(r"> \*\*Predict\.\*\* (.*)", block, re.DOTALL):
        card.predictions.append(_line(said[1]))
    if said := re.match(r"(?:> )?\*\*Answer\.\*\* (.*)", block, re.DOTALL):
        card.answer = _line(said[1])
    difficulty = re.match(r"\*Difficulty ([●○]+), (\d+) minutes", block)
    if block.startswith("### Exercise "):
        card.exercises.append(_line(block.splitlines()[0][len("### Exercise ") :]))
    elif difficulty and card.exercises and "minutes" not in card.exercises[-1]:
        card.exercises[-1] += f" ({difficulty[1]}, {difficulty[2]} minutes)"


def _line(text: str) -> str:
    return " ".join(line.removeprefix("> ").strip() for line in text.splitlines())


def page(notebooks: Mapping[str, NotebookNode]) -> str:
    """Return the page, as Markdown."""
    parts = [INTRODUCTION + needs_picture(needs(notebooks))]
    for name, notebook in notebooks.items():
        lessons = cards(notebook)
        if not lessons:
            continue
        title = notebook.cells[0].source.splitlines()[0].removeprefix("# ")
        parts.append(f"## {name[:2]} {title}")
        for card in lessons:
            address = card.heading.replace(" ", "-")
            lines = [f"### [{card.heading}](notebooks/{name}.ipynb#{address})"]
            lines += [f"*{card.minutes} minutes.*"] if card.minutes else []
            lines += [f"- **Ask:** {asked}" for asked in card.predictions]
            lines += [f"- **Exercise {exercise}**" for exercise in card.exercises]
            lines += [f"- **The answer:** {card.answer}"] if card.answer else []
            parts.append("\n".join([*lines[:2], "", *lines[2:]]))
    return with_links(parts)


def with_links(parts: list[str]) -> str:
    """Join the parts; links between notebooks lead from this page, which lies one folder up."""
    text = "\n\n".join(parts)
    return re.sub(r"\]\((?=\w+\.ipynb|glossary\.md)", "](notebooks/", text) + "\n"


def needs(notebooks: Mapping[str, NotebookNode]) -> dict[str, list[str]]:
    """Return for each notebook, by number, those that its line *You need* names."""
    found = {}
    for name, notebook in notebooks.items():
        prose = "\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
        said = re.search(r"\*\*You need\*\*(.*?)\*Time", prose, re.DOTALL)
        numbers = re.findall(r"\]\((\w\d)_\w+\.ipynb", said[1]) if said else []
        found[name[:2]] = [one for one in dict.fromkeys(numbers) if one != name[:2]]
    return found


def needs_picture(needed: Mapping[str, list[str]]) -> str:
    """Return the map as SVG: a notebook stands to the right of all that it needs."""
    column: dict[str, int] = {}

    def place(number: str) -> int:
        if number not in column:
            column[number] = 1 + max((place(one) for one in needed.get(number, ())), default=-1)
        return column[number]

    rows: dict[int, int] = {}
    at = {}
    for number in needed:
        x = place(number)
        rows[x] = rows.get(x, -1) + 1
        at[number] = 30 + 150 * x, 30 + 56 * rows[x]
    height = 20 + max((y for _, y in at.values()), default=0)
    lines, boxes = [], []
    for number, (x, y) in at.items():
        boxes.append(
            f'<rect x="{x - 22}" y="{y - 17}" width="44" height="34" rx="6" fill="{PAGE}" '
            f'stroke="currentColor"/><text x="{x}" y="{y + 6}" text-anchor="middle">{number}</text>'
        )
        for one in needed[number]:
            from_x, from_y = at[one]
            lines.append(
                f'<path d="M{from_x + 22} {from_y} C{from_x + 80} {from_y} {x - 80} {y} '
                f'{x - 24} {y}" fill="none" stroke="currentColor" opacity="0.6" '
                'marker-end="url(#needs-tip)"/>'
            )
    said = "; ".join(f"{n} needs {' and '.join(those)}" for n, those in needed.items() if those)
    tip = (
        '<defs><marker id="needs-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0 0 8 4 0 8z" fill="currentColor"/>'
        "</marker></defs>"
    )
    width = 60 + max((x for x, _ in at.values()), default=0)
    return (
        f'\n<svg role="img" aria-label="{html.escape(said)}" viewBox="0 0 {width} {height}" '
        f'style="max-width: {width}px; width: 100%" font-size="18" fill="currentColor">'
        f"{tip}{''.join(lines)}{''.join(boxes)}</svg>"
    )
