"""Widgets that a rank displays, as text: no notebook talks to a rank, so that they cannot move."""

from __future__ import annotations

import html
import sys
from typing import Any

VIEW = "application/vnd.jupyter.widget-view+json"


def widget_of(data: dict) -> Any:
    """Return the widget that is displayed, as long as this process has it.

    Parameters
    ----------
    data : dict
        By kind of content.

    Returns
    -------
    ipywidgets.Widget or None
        None for everything else.
    """
    module = sys.modules.get("ipywidgets.widgets.widget")
    known = getattr(module, "_instances", {})
    return known.get(data.get(VIEW, {}).get("model_id"))


def as_text(widget: Any, otherwise: str) -> str:
    """Return what a row of widgets says now, such as tqdm's: the words to both sides of its bar.

    Parameters
    ----------
    widget : ipywidgets.Widget
        Any.
    otherwise : str
        What stands for a widget that has no words in it.

    Returns
    -------
    str
        One line.
    """
    values = [getattr(child, "value", None) for child in getattr(widget, "children", ())]
    words = [html.unescape(value) for value in values if isinstance(value, str)]
    return " ".join(" ".join(words).split()) or otherwise
