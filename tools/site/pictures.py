"""Plots of an executed notebook as files of the site, each with its words and its number."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools.site.players import player
from tools.states import STATES

PICTURES = {"image/png": "png", "image/jpeg": "jpg"}
NO_ALT = "a picture without a description"  # found by `faults`, so that no build passes with it


def with_pictures(notebook: NotebookNode, name: str, folder: Path) -> NotebookNode:
    """Return the notebook with its plots as files in ``folder``, each with words and a number.

    The numbers count within a notebook, whose own stands before them, so that a text, a class or a
    letter can name *figure 8.2* and link to it.
    """
    chapter, figure = int(name[:2]), 0

    def caption(said: Mapping) -> str:
        words = said.get("title", "")
        number = f'<a href="#figure-{figure}">Figure {chapter}.{figure}</a>'
        return f"<figcaption>{number}{words and f'. {html.escape(words)}'}</figcaption>"

    def picture(kind: str, output: NotebookNode) -> str:
        raw = base64.b64decode(output["data"][kind])
        file = folder / f"{name}-{hashlib.sha256(raw).hexdigest()[:12]}.{PICTURES[kind]}"
        file.write_bytes(raw)
        return _image(file, output["metadata"].get(kind, {}))

    for number, cell in enumerate(notebook.cells):
        for index, output in enumerate(cell.get("outputs", [])):
            data = output.get("data", {})
            if states := data.get(STATES):
                drawn = [
                    shown["metadata"].get(kind, {})
                    for state in states["states"]
                    for shown in state["outputs"]
                    for kind in PICTURES.keys() & shown.get("data", {}).keys()
                ]
                figure += bool(drawn)
                # what a control changes in a title would be wrong for the other states
                same = drawn[0] if len({one.get("title") for one in drawn}) == 1 else {}
                below = caption(same) if drawn else ""
                shown = player(states, f"states-{number}-{index}", picture, below)
                if drawn:
                    shown = f'<figure id="figure-{figure}">{shown}</figure>'
                output.data = nbformat.from_dict({"text/html": shown})
                continue
            for kind, ending in PICTURES.items():
                if kind not in data or "text/html" in data:
                    continue
                file = folder / f"{name}-{number}-{index}.{ending}"
                file.write_bytes(base64.b64decode(data[kind]))
                figure += 1
                said = output.metadata.get(kind, {})
                shown = _image(file, said) + caption(said)
                output.data = nbformat.from_dict(
                    {"text/html": f'<figure id="figure-{figure}">{shown}</figure>'}
                )
                break
    return notebook


def _image(file: Path, said: Mapping) -> str:
    """Return a plot's file as an image with its words, its size and what keeps its colours."""
    from PIL import Image

    with Image.open(file) as opened:
        width, height = opened.size
    alt = html.escape(said.get("alt", NO_ALT))
    kept = f' data-kept="{json.dumps(said["kept"])}"' if "kept" in said else ""
    return (
        f'<img src="../figures/{file.name}" loading="lazy" width="{width}" height="{height}" '
        f'alt="{alt}"{kept}>'
    )
