"""What Sphinx reads: the repository's pages and the executed notebooks, in one folder.

The folder has the repository's shape, so that a link that works there works here.
"""

from __future__ import annotations

import copy
import html
import posixpath
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import nbformat
from bs4 import BeautifulSoup
from nbformat import NotebookNode

from helpers.paths import ROOT
from tools.site import cards, generated, instant
from tools.site.code import with_code
from tools.site.gallery import with_gallery
from tools.site.pictures import with_pictures
from tools.widgets import without_widgets

PARTS = {
    "Start": ("00",),
    "Messages": ("01", "08"),
    "Many replicas": ("02", "10", "12"),
    "One model on many ranks": ("11", "13"),
    "Gradients and models": ("03", "04", "09"),
    "Kernels, graphs and memory": ("05", "14", "15", "06", "07"),
}
"""The notebooks in the order of reading, as the site's menu groups them; others are appendices."""

HUB = "deploy/jupyterhub/README.md"
USE = ("INSTALL", "COMMANDS", "RANKS", "BACKEND", "CLUSTERS", "TROUBLESHOOTING")
"""The pages of ``docs/``, in the order of the menu."""


def write(
    folder: Path,
    notebooks: Mapping[str, NotebookNode],
    libraries: Sequence[str] = generated.LIBRARIES,
) -> None:
    """Fill an empty folder with what the site is made from, with a page for each library."""
    (folder / "notebooks").mkdir(parents=True, exist_ok=True)
    pictures = folder / "extra" / "figures"
    pictures.mkdir(parents=True, exist_ok=True)
    for name, notebook in notebooks.items():
        reader = nbformat.read(ROOT / "notebooks" / f"{name}.ipynb", 4)
        solved = with_code(with_solutions(without_widgets(notebook), reader))
        page = with_pictures(solved, name, pictures)
        page.metadata.pop("widgets", None)
        for cell in page.cells:
            if cell.cell_type == "markdown":
                cell.source = with_anchors(cell.source)
        nbformat.write(page, folder / "notebooks" / f"{name}.ipynb")
    shutil.copy(ROOT / "notebooks" / "glossary.md", folder / "notebooks")
    pages = [f"docs/{name}.md" for name in USE]
    for name in (*pages, "TEACHING.md", "CONTRIBUTING.md", "data/README.md", HUB):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        text = leading_somewhere((ROOT / name).read_text("utf-8"), name, folder)
        (folder / name).write_text(text, encoding="utf-8")
    for name, text in generated.pages(libraries).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    instant.write(folder)
    (folder / "CARDS.md").write_text(with_anchors(cards.page(notebooks)), encoding="utf-8")
    (folder / "index.md").write_text(_landing(folder, notebooks), encoding="utf-8")


def title(notebook: NotebookNode) -> str:
    """Return the notebook's first heading, without marks."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown" and (found := re.search(r"^# +(.+)$", cell.source, re.M)):
            return re.sub(r"[*`$]", "", found[1]).strip()
    return ""


def with_anchors(text: str) -> str:
    """Return the text with links to headings of notebooks as the site names them.

    JupyterLab keeps a heading's capitals and its punctuation, MyST does not.

    >>> with_anchors("see [there](08_rings.ipynb#Between-hosts,-again)")
    'see [there](08_rings.ipynb#between-hosts-again)'
    """
    return re.sub(
        r"(?:(?<=\.ipynb#)|(?<=\]\(#))[^)\s]+",
        lambda found: re.sub(r"[^\w-]", "", found[0]).lower(),
        text,
    )


def with_solutions(notebook: NotebookNode, reader: NotebookNode) -> NotebookNode:
    """Return the solved notebook with each exercise's stub, and its solution folded below."""
    page = copy.deepcopy(notebook)
    stubs = {cell.id: cell.source for cell in reader.cells}
    page.cells = []
    for cell in copy.deepcopy(notebook.cells):
        if cell.metadata.get("nbgrader", {}).get("solution"):
            stub = stubs[cell.id]
            language = "cuda" if stub.startswith("%%cuda") else "ipython3"
            page.cells.append(nbformat.v4.new_markdown_cell(f"```{language}\n{stub}\n```"))
            cell.source = re.sub(r"^\s*(#|//) (BEGIN|END) SOLUTION\n?", "", cell.source, flags=re.M)
            cell.metadata["tags"] = [*cell.metadata.get("tags", []), "hide-input"]
            cell.metadata["mystnb"] = {
                "code_prompt_show": "One solution, with which this page ran",
                "code_prompt_hide": "One solution, with which this page ran",
            }
        page.cells.append(cell)
    return page


def with_appendices(names: Iterable[str]) -> dict[str, Sequence[str]]:
    """Return the parts of the menu, and at their end those of these notebooks that are in none."""
    known = {number for numbers in PARTS.values() for number in numbers}
    return PARTS | {"Appendices": [name[:2] for name in sorted(names) if name[:2] not in known]}


def _landing(folder: Path, notebooks: Mapping[str, NotebookNode]) -> str:
    """The README as the first page, with the menu of all others."""
    text = at_the_top((ROOT / "README.md").read_text("utf-8"), _address())
    text = re.sub(
        r"!\[([^\]]*)\]\(docs/ring_allreduce\.gif\)",
        lambda found: moving("static/ring_allreduce", found[1]),
        text,
    )
    _first_frame(ROOT / "docs" / "ring_allreduce.gif", folder / "extra" / "static")
    parts = with_appendices(notebooks)
    titles = {name: title(notebook) for name, notebook in notebooks.items()}
    text = with_difficulty(text, notebooks)
    text = with_gallery(text, parts, notebooks, titles, folder / "extra" / "figures")
    text = leading_somewhere(text, "README.md", folder)
    by_number = {name[:2]: f"{name[:2]} {titles[name]} <notebooks/{name}>" for name in notebooks}
    menu = [
        _tree(part, [by_number[number] for number in numbers if number in by_number])
        for part, numbers in parts.items()
    ]
    menu.append(_tree("Without an install", instant.PAGES))
    menu.append(_tree("Look up", ["notebooks/glossary", *generated.REFERENCE, "data/README"]))
    menu.append(_tree("Use", [f"docs/{name}" for name in USE]))
    menu.append(
        _tree("Teach and take part", ["TEACHING", "CARDS", HUB.removesuffix(".md"), "CONTRIBUTING"])
    )
    return text + "\n\n" + "\n\n".join(tree for tree in menu if tree)


def at_the_top(text: str, address: str = "") -> str:
    """Return the README with its commands, and what needs no install, before its first picture."""
    block = re.search(r"^```bash\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL)
    commands = " and ".join(f"`{line}`" for line in block[1].split("\n")) if block else ""
    clone = f"[clone the course]({address})" if address else "clone the course"
    start = f"**Run it:** {clone} and type {commands} ([more](#two-commands)).\n\n{instant.LINE}"
    return text.replace("\n![", f"\n{start}\n\n![", 1)


def _address() -> str:
    """Where the repository is, if CITATION.cff says it."""
    cited = (ROOT / "CITATION.cff").read_text("utf-8")
    found = re.search(r"^repository-code: [\"']?(https?://[^\s\"']+)", cited, re.MULTILINE)
    return found[1] if found else ""


def with_difficulty(text: str, notebooks: Mapping[str, NotebookNode]) -> str:
    """Return the table of notebooks with a column that counts each one's exercises by difficulty.

    The difficulties are read from the exercises, which are the one place that says them.
    """
    lines, inside = text.split("\n"), False
    for number, line in enumerate(lines):
        inside = line.startswith("| notebook |") or (inside and line.startswith("|"))
        if not inside:
            continue
        if found := re.match(r"\| \[(\w+)\]", line):
            cells = notebooks[found[1]].cells if found[1] in notebooks else []
            prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
            marks = re.findall(r"\*Difficulty ([●○]{3})", prose)
            more = " · ".join(str(marks.count(mark)) for mark in ("●○○", "●●○", "●●●"))
        else:
            more = "---" if line.startswith("|---") else "exercises: easy · medium · hard"
        lines[number] = f"{line} {more} |"
    return "\n".join(lines)


def moving(path: str, alt: str) -> str:
    """Return HTML of a moving picture that a reader can stop, by ``course.css`` and no script.

    Whoever asks the system for reduced motion gets the first frame, and no switch.
    """
    picture, alt = f'<img class="course-figure" src="{path}', f'alt="{html.escape(alt)}">'
    return (
        f'<span class="moving"><picture><source srcset="{path}.png" '
        f'media="(prefers-reduced-motion: reduce)">{picture}.gif" {alt}</picture>'
        f'<span class="still">{picture}.png" {alt}</span>'
        '<label><input type="checkbox"> Stop the picture</label></span>'
    )


def _first_frame(gif: Path, folder: Path) -> None:
    from PIL import Image

    folder.mkdir(parents=True, exist_ok=True)
    with Image.open(gif) as moving:
        moving.convert("RGB").save(folder / f"{gif.stem}.png")
    shutil.copy(gif, folder)


def _tree(caption: str, entries: list[str]) -> str:
    if not entries:
        return ""
    lines = "\n".join(entries)
    return f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{lines}\n```"


def leading_somewhere(text: str, page: str, folder: Path) -> str:
    """Return a page with links to what the site has; other files of the repository are copied.

    A link to what the site does not have becomes its words.
    """
    here = posixpath.dirname(page)

    def lead(found: re.Match) -> str:
        words, target = found[1], found[2]
        path, _, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return found[0]
        path = posixpath.normpath(posixpath.join(here, path))
        if path == "README.md":
            first = posixpath.relpath("index.md", here or ".")
            return f"[{words}]({first}{anchor and '#'}{anchor})"
        if path.endswith((".ipynb", ".md")):
            return found[0]
        if not path.startswith("..") and (ROOT / path).is_file():
            copied = folder / "extra" / "files" / path
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / path, copied)
            address = posixpath.relpath(f"files/{path}", here or ".")
            return f'<a href="{address}">{BeautifulSoup(words, "html.parser").text}</a>'
        return words

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)", lead, text)
