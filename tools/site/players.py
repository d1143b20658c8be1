"""Widgets that play without a kernel: controls that switch between the states of ``interact``.

``tools.states`` computed them; ``docs/static/states.js`` switches. Without a script, and in print,
the starting state stands there.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from nbformat import NotebookNode

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")  # colours of a terminal


def player(
    found: Mapping[str, Any],
    identity: str,
    picture: Callable[[str, NotebookNode], str],
    caption: str = "",
) -> str:
    """Return a widget's controls and states, as ``tools.states.states`` found them, as one ``div``.

    `identity` begins the id of every control; no other widget of the page has it. `picture` returns
    HTML for an output, given its kind, such as ``"image/png"``, and the output.
    """
    controls = found["controls"]
    begin = [control["start"] for control in controls]
    panels: dict[str, int] = {}
    where = {}
    for state in sorted(found["states"], key=lambda state: state["at"] != begin):
        shown = "".join(_output(output, picture) for output in state["outputs"])
        where[",".join(map(str, state["at"]))] = panels.setdefault(shown, len(panels))
    parts = "".join(
        f'<div class="states-panel"{" hidden" if index else ""}>{shown}</div>'
        for shown, index in panels.items()
    )
    shown_at = ", ".join(
        f"{one['label']} = {one['words'][at]}" for one, at in zip(controls, begin, strict=True)
    )
    rows = "".join(_control(one, f"{identity}-{i}") for i, one in enumerate(controls))
    return (
        f'<div class="states" data-states="{html.escape(json.dumps(where))}">'
        f'<fieldset class="states-controls" hidden><legend>Try other values</legend>{rows}'
        f"<p>{html.escape(said(found))}</p></fieldset>"
        f'<p class="states-begin"><em>Shown: {html.escape(shown_at)}.</em></p>'
        f'<div class="states-shown" aria-live="polite">{parts}</div>{caption}</div>'
    )


def said(found: Mapping[str, Any]) -> str:
    """Return which states a page has, in words."""
    controls, number = found["controls"], len(found["states"])
    every = 1
    for control in controls:
        every *= len(control["words"])
    fewer = [
        f"{len(one['words'])} of {one['of']} values of {one['label']}"
        for one in controls
        if len(one["words"]) < one["of"]
    ]
    text = f"{number} states were computed for this page"
    text += f", with {', '.join(fewer)}." if fewer else "."
    if number < every:
        text += " Moving one control puts the others back to their start."
    if fewer or number < every:
        text += " In JupyterLab you choose freely."
    return text


def _control(control: Mapping[str, Any], identity: str) -> str:
    label, words, start = html.escape(control["label"]), control["words"], control["start"]
    shared = f'id="{identity}" data-start="{start}" autocomplete="off"'
    if control["kind"] == "select":
        options = "".join(
            f'<option value="{index}"{" selected" if index == start else ""}>'
            f"{html.escape(word)}</option>"
            for index, word in enumerate(words)
        )
        return (
            f'<div><label for="{identity}">{label}</label><select {shared}>{options}</select></div>'
        )
    now = html.escape(words[start])
    return (
        f'<div><label for="{identity}">{label}</label>'
        f'<input type="range" {shared} min="0" max="{len(words) - 1}" value="{start}" '
        f'aria-valuetext="{now}" data-words="{html.escape(json.dumps(words))}">'
        f'<output for="{identity}" aria-live="off">{now}</output>'
        f'<button type="button" data-plays="{identity}" aria-label="Play {label}">Play</button>'
        "</div>"
    )


def _output(output: NotebookNode, picture: Callable[[str, NotebookNode], str]) -> str:
    if output["output_type"] == "stream":
        return f"<pre>{html.escape(ESCAPES.sub('', output['text']))}</pre>"
    data = output["data"]
    if "text/html" in data:
        return data["text/html"]
    for kind in ("image/png", "image/jpeg"):
        if kind in data:
            return picture(kind, output)
    return f"<pre>{html.escape(data.get('text/plain', ''))}</pre>"
