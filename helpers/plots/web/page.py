"""One way to put a scripted picture into a page: ``embed``.

A picture is a file here that exports ``start(root, data)``, and may import from its neighbours::

    import { draw, make } from "./dom.js";
    export function start(root, data) { ... }

What ``embed`` returns needs no network and, once made, no kernel: data, style and script are in it.
It names nothing by an ``id``, so any number may stand on one page, be run again, or be taken away;
the script in it runs once for each kind, however many pictures of that kind carry it (``page.js``).
In a browser test find the picture by its class's name as ``data-testid``, and a part by that with
what the script calls the part behind it: ``ring-play``, ``ring-step``.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from IPython.display import HTML

HERE = Path(__file__).parent
IMPORT = re.compile(r'^import \{[^}]*\} from "\./([\w.-]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?=function|const|class)", re.MULTILINE)
WAITING = "The picture appears here once scripts may run: in JupyterLab, run this cell."


def embed(name: str, data: object, *, still: str = "", test_id: str | None = None) -> HTML:
    """Return a picture as one piece of HTML, complete in itself: style, element and script.

    ``name`` is the picture's class, its script ``name.js``, which exports ``start(root, data)``,
    and its style ``name.css``, each rule of which begins with the class. ``still`` is the HTML that
    stands in the element before the script runs, and stays if it never does; by default a sentence
    says so. ``start`` takes it away, or builds upon it.
    """
    from IPython.display import HTML

    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    values = text.replace("&", "&amp;").replace("'", "&#39;").replace("<", "&lt;")
    kind, code = _code(name)
    sheet = (HERE / "page.css").read_text("utf-8") + (HERE / f"{name}.css").read_text("utf-8")
    return HTML(
        f"<style>{sheet}</style>"
        f'<div class="picture {name}" data-testid="{test_id or name}" data-picture="{kind}" '
        f"data-values='{values}'>{still or html.escape(WAITING)}</div>"
        f"<script>{code}</script>"
    )


def bundle(script: str) -> str:
    """Return a script after all that it imports, each file once, as one text without imports.

    Imports have the form ``import { a, b } from "./file.js";``, one to a line; the files share one
    scope, so what they define has names of its own.
    """
    texts: dict[str, str] = {}

    def add(name: str) -> None:
        text = (HERE / name).read_text("utf-8")
        for needed in IMPORT.findall(text):
            if needed not in texts:
                add(needed)
        texts[name] = EXPORT.sub("", IMPORT.sub("", text))

    add(script)
    return "".join(texts.values())


@cache
def _code(name: str) -> tuple[str, str]:
    """The kind (name and version of a script) and the text that starts pictures of that kind."""
    modules = bundle(f"{name}.js")
    version = hashlib.sha256(modules.encode()).hexdigest()[:8]
    kind = f"{name}-{version}"
    page = (HERE / "page.js").read_text("utf-8")
    return kind, page.replace("/* KIND */", kind).replace("/* MODULES */", modules)
