"""Plots of an executed notebook as files of the site, each with its words and its number."""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools.site.players import player
from tools.states import STATES

PICTURES = {"image/png": ".webp", "image/jpeg": ".jpg"}
LEAST = 8  # characters of a caption that says something
NO_ALT = "a picture without a description"  # found by `faults`, so that no build passes with it


def with_pictures(notebook: NotebookNode, name: str, folder: Path) -> NotebookNode:
    """Return the notebook with its plots as files in ``folder``, each with words and a number.

    The numbers count within a notebook, whose own stands before them, so that a text, a class or a
    letter can name *figure 8.2* and link to it.
    """
    chapter, figure = name[0].lstrip("0") + name[1], 0

    def caption(said: Mapping) -> str:
        name, by = said.get("title", ""), said.get("axes", "")
        panels = "; " in name and " by " in by and "; " not in by  # alike, each with a title
        words = f"{by}: {name}" if panels else name or by
        if not re.match(r"\w+ = ", words):  # a symbol stays as it is
            words = words[:1].upper() + words[1:]
        number = f'<a href="#figure-{figure}">Figure {chapter}.{figure}</a>'
        return f"<figcaption>{number}{words and f'. {html.escape(words)}'}</figcaption>"

    def picture(kind: str, output: NotebookNode) -> str:
        raw = base64.b64decode(output["data"][kind])
        file = written(folder / f"{name}-{hashlib.sha256(raw).hexdigest()[:12]}", kind, raw)
        return _image(file, output["metadata"].get(kind, {}))

    for number, cell in enumerate(notebook.cells):
        for index, output in enumerate(cell.get("outputs", [])):
            data = output.get("data", {})
            kinds = [kind for kind in PICTURES if kind in data and "text/html" not in data][:1]
            drawn = [output.metadata.get(kind, {}) for kind in kinds]
            if states := data.get(STATES):
                drawn = [
                    shown["metadata"].get(kind, {})
                    for state in states["states"]
                    for shown in state["outputs"]
                    for kind in PICTURES.keys() & shown.get("data", {}).keys()
                ]
            figure += bool(drawn)
            said = {key: shared([one.get(key, "") for one in drawn]) for key in ("title", "axes")}
            below = caption(said) if drawn else ""
            if states:
                shown = player(states, f"states-{number}-{index}", picture, below)
            elif drawn:
                shown = picture(kinds[0], output) + below
            else:
                continue
            if drawn:
                shown = f'<figure id="figure-{figure}">{shown}</figure>'
            output.data = nbformat.from_dict({"text/html": shown})
    return notebook


def shared(titles: Sequence[str]) -> str:
    """Return what the titles of a picture's states begin with, without what a control changes.

    >>> shared(["Serial fraction s = 0.01", "Serial fraction s = 0.1"])
    'Serial fraction s'
    >>> shared(["fast", "slow"])
    ''
    """
    first, last = min(titles, default=""), max(titles, default="")
    if first == last:
        return first
    length = next(i for i in range(len(last)) if first[i : i + 1] != last[i])
    begin = re.sub(r"[^\w)]*\S*$", "", first[:length])
    return begin if len(begin) >= LEAST else ""


def written(stem: Path, kind: str, raw: bytes) -> Path:
    """Write a picture to a file; a PNG as WebP without loss, which has half the bytes."""
    from PIL import Image

    file = stem.with_name(stem.name + PICTURES[kind])
    if kind == "image/png":
        with Image.open(io.BytesIO(raw)) as opened:
            opened.save(file, lossless=True, method=2)
    else:
        file.write_bytes(raw)
    return file


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
