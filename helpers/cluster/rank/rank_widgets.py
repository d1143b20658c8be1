"""Widgets that a rank displays, as text: no notebook talks to a rank, so that they cannot move."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterator
from typing import Any

VIEW = "application/vnd.jupyter.widget-view+json"
SPEAKING = ("HTML", "HTMLMath", "Label")
BARS = ("IntProgress", "FloatProgress")
APART = re.compile(r"<(?:br|/(?:p|div|li|td|th|tr|h\d))\b[^<>]*>", re.IGNORECASE)
STILL = "(on a rank it cannot be moved: show it in a cell without %%ranks)"


def widget_of(data: dict) -> Any:
    """Return the widget that is displayed, as long as this process has it, or None."""
    module = sys.modules.get("ipywidgets.widgets.widget")
    known = getattr(module, "_instances", {})
    return known.get(data.get(VIEW, {}).get("model_id"))


def as_text(widget: Any, otherwise: str) -> str:
    """Return what a widget says now: tqdm's words to both sides of its bar, a control's value."""
    parts = list(_leaves(widget))
    words = [_words(part) for part in parts if _kind(part) in SPEAKING]
    bars = [_bar(part) for part in parts if _kind(part) in BARS]
    controls = [_control(part) for part in parts if hasattr(part, "disabled")]
    said = " ".join(" ".join([*(words or bars), *controls]).split())
    return f"{said} {STILL}" if controls else said or otherwise


def _leaves(widget: Any) -> Iterator[Any]:
    children = getattr(widget, "children", None)
    if children is None:
        yield widget
    for child in children or ():
        yield from _leaves(child)


def _kind(widget: Any) -> str:
    return str(getattr(widget, "_model_name", "")).removesuffix("Model")


def _words(widget: Any) -> str:
    text = str(getattr(widget, "value", ""))
    if _kind(widget) == "Label":
        return text
    return html.unescape(re.sub(r"<[^<>]*>", "", APART.sub(" ", text)))


def _bar(widget: Any) -> str:
    return f"{widget.description} {widget.value:g}/{widget.max:g}"


def _control(widget: Any) -> str:
    name = getattr(widget, "description", "") or _kind(widget)
    value = None if _kind(widget) == "Password" else getattr(widget, "value", None)
    return f"[{name}]" if value is None else f"[{name.rstrip(':')}: {value}]"
