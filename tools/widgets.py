"""Widgets without a kernel: what each showed when the notebook was executed, as plain outputs."""

from __future__ import annotations

import copy
import html

import nbformat
from nbformat import NotebookNode

from tools.states import STATES

VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"
PROGRESS = ("IntProgressModel", "FloatProgressModel")


def without_widgets(notebook: NotebookNode) -> NotebookNode:
    """Return a copy with every widget replaced: by its picture, its outputs, and its settings.

    What has its states (``tools.states``) keeps these alone, for a player. Of any other an output
    widget gives what was drawn in it last; a control gives its label and value in one line that
    says that it works in JupyterLab. Progress bars are left out, and lines that were taken away.
    """
    notebook = copy.deepcopy(notebook)
    models = notebook.metadata.pop("widgets", {}).get(STATE, {}).get("state", {})
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        kept = []
        for output in cell.outputs:
            data = output.get("data", {})
            if data and not any(data.values()):
                continue
            view = data.pop(VIEW, None)
            if STATES in data:
                kept.append(_display({STATES: data[STATES]}))
                continue
            if view is None or data.keys() & {"text/html", "image/png", "image/svg+xml"}:
                kept.append(output)
                continue
            settings: list[str] = []
            shown = list(_outputs(view["model_id"], models, settings, set()))
            if settings:
                kept.append(_html(f"<p><em>In JupyterLab you set: {', '.join(settings)}.</em></p>"))
            kept += shown
        cell.outputs = _joined(kept)
    return notebook


def _joined(outputs: list[NotebookNode]) -> list[NotebookNode]:
    """Return the outputs with texts joined that only something taken away parted, amid a line."""
    joined: list[NotebookNode] = []
    for output in outputs:
        before = joined[-1] if joined else {}
        if output.output_type == "stream" and before.get("name") == output.name:
            before["text"] += output.text
        else:
            joined.append(output)
    return joined


def _outputs(identity: str, models: dict, settings: list[str], seen: set[str]):
    """Yield the outputs within a widget, depth first; add its controls to ``settings``."""
    if identity in seen or identity not in models:
        return
    seen.add(identity)
    model = models[identity]
    kind, state = model["model_name"], model["state"]
    if kind == "OutputModel":
        yield from map(nbformat.from_dict, state.get("outputs", []))
    elif kind in ("HTMLModel", "HTMLMathModel", "LabelModel"):
        if state.get("value"):
            yield _html(state["value"])
    elif "children" in state:
        for child in state["children"]:
            yield from _outputs(child.removeprefix("IPY_MODEL_"), models, settings, seen)
    elif kind not in PROGRESS and state.get("description"):
        value = state.get("value")
        if value is None and "index" in state and state.get("_options_labels"):
            value = state["_options_labels"][state["index"]]
        label = html.escape(str(state["description"]).rstrip(":"))
        settings.append(label if value is None else f"{label} = {html.escape(str(value))}")


def _html(text: str) -> NotebookNode:
    return _display({"text/html": text})


def _display(data: dict) -> NotebookNode:
    return nbformat.v4.new_output("display_data", data=data)
