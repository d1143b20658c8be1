"""The states of ``interact``, computed while a notebook is executed for the site.

``install`` runs in that notebook's kernel. Each ``interactive`` then shows, beside its widgets,
what its function showed at chosen values of its controls: a page without a kernel switches between
them (``tools/site/players.py``). A reader's notebook never loads this module.
"""

from __future__ import annotations

import base64
import io
import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

STATES = "application/vnd.course.states+json"
MOST = 12  # values of one control
ALL = 40  # states of one widget
FEWEST = 3  # values of a control, however long a state takes: least, start, most
GRID = 5  # values of each of several controls below which they are moved one at a time
BYTES = 400_000  # of all states of a widget: three in a page of 2 MB
COLOURS = 64  # of a drawing: paper, ink, and the shades between
DRAWN = 0.97  # share of a picture's points that these colours must have; a photograph keeps more


@dataclass(frozen=True)
class Control:
    """A control that a page can have: its argument, label, kind, values and where it starts."""

    argument: str
    label: str
    kind: str  # "range" or "select"
    values: Sequence[Any]
    words: Sequence[str]
    start: int


def install(seconds: float) -> None:
    """Let every ``interactive`` of this kernel show its states too, computed in so many seconds."""
    from ipywidgets.widgets.interaction import interactive

    plain = interactive._repr_mimebundle_

    def bundle(widget: Any, **options: Any) -> dict:
        found = states(widget, seconds)
        return plain(widget, **options) | ({} if found is None else {STATES: found})

    interactive._repr_mimebundle_ = bundle


def states(widget: Any, seconds: float) -> dict | None:
    """Return an ``interactive``'s controls and what it shows at their values.

    ``controls`` has of each its label, kind, the words of its values here, the index of the one it
    starts at, and how many there are; ``states`` of each the index of every control's value, and
    nbformat's outputs. None if it has a control that no page can have.
    """
    parts = [part for part in widget.kwargs_widgets if hasattr(part, "model_id")]
    controls = [control(part) for part in parts]
    if widget.manual or not controls or None in controls:
        return None
    begun = time.perf_counter()
    first = _outputs(widget, {})
    each, size = time.perf_counter() - begun, len(str(first))
    afford = int(min(ALL, seconds / each, BYTES / size))
    start = tuple(one.start for one in controls)
    chosen, wanted = choose([len(one.values) for one in controls], start, afford)
    found = []
    for at in wanted:
        values = {one.argument: one.values[i] for one, i in zip(controls, at, strict=True)}
        shown = first if at == start else _outputs(widget, values)
        where = [indices.index(i) for indices, i in zip(chosen, at, strict=True)]
        found.append({"at": where, "outputs": shown})
    told = [
        {
            "label": one.label,
            "kind": one.kind,
            "words": [one.words[i] for i in indices],
            "start": indices.index(one.start),
            "of": len(one.values),
        }
        for one, indices in zip(controls, chosen, strict=True)
    ]
    return {"controls": told, "states": found}


def control(widget: Any) -> Control | None:
    """Return a widget as a control of a page, or None if it is none with values to go through."""
    kind = type(widget).__name__
    if hasattr(widget, "_options_full"):  # a selection of any kind
        values, words = [one[1] for one in widget._options_full], list(widget._options_labels)
    elif kind in ("IntSlider", "FloatSlider", "FloatLogSlider"):
        count = 1 + math.floor((widget.max - widget.min) / widget.step + 1e-9)
        values = [round(widget.min + i * widget.step, 10) for i in range(count)]
        values = [widget.base**x for x in values] if kind == "FloatLogSlider" else values
        words = [_word(x, getattr(widget, "readout_format", "d")) for x in values]
    else:
        return None
    if not values:
        return None
    start = widget.value
    if start in values:
        at = values.index(start)
    else:
        at = min(range(len(values)), key=lambda i: abs(values[i] - start))
        values[at], words[at] = start, _word(start, getattr(widget, "readout_format", "d"))
    label = widget.description.rstrip(": ") or widget._kwarg
    shape = "range" if "Slider" in kind else "select"
    return Control(widget._kwarg, label, shape, values, words, at)


def choose(
    sizes: Sequence[int], start: Sequence[int], afford: int
) -> tuple[list[list[int]], list[tuple[int, ...]]]:
    """Choose values of each control, and the states to compute, of which so many can be afforded.

    States are all combinations of the chosen values, or where these are too many, those in which
    one control at most is not at its start.

    >>> choose([3, 2], [0, 1], 6)
    ([[0, 1, 2], [0, 1]], [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)])
    >>> choose([9, 2], [4, 0], 5)
    ([[0, 4, 8], [0, 1]], [(0, 0), (4, 0), (8, 0), (4, 1)])
    """

    def taken(most: int) -> list[list[int]]:
        return [spread(size, at, most) for size, at in zip(sizes, start, strict=True)]

    for most in range(MOST, (GRID if len(sizes) > 1 else FEWEST) - 1, -1):
        if math.prod(map(len, taken(most))) <= afford:
            return taken(most), list(itertools.product(*taken(most)))
    for most in range(MOST, FEWEST - 1, -1):
        chosen = taken(most)
        if sum(map(len, chosen)) - len(chosen) + 1 <= afford:
            break
    lone = [
        (*start[:index], i, *start[index + 1 :])
        for index, indices in enumerate(chosen)
        for i in indices
    ]
    return chosen, list(dict.fromkeys(lone))


def spread(size: int, start: int, most: int) -> list[int]:
    """Return at most `most` of `size` indices, evenly spread: both ends and the start too.

    >>> spread(10, 3, 4), spread(10, 4, 4)
    ([0, 3, 6, 9], [0, 4, 6, 9])
    """
    if size <= most:
        return list(range(size))
    even = [round(i * (size - 1) / (most - 1)) for i in range(most)]
    if start not in even:
        even[min(range(1, most - 1), key=lambda i: abs(even[i] - start))] = start
    return even


def _outputs(widget: Any, values: dict[str, Any]) -> list[dict]:
    """Return what an interactive's function shows, as nbformat's outputs."""
    from IPython.display import display
    from IPython.utils.capture import capture_output
    from ipywidgets.widgets.interaction import show_inline_matplotlib_plots

    fixed = {part._kwarg: part.get_interact_value() for part in widget.kwargs_widgets}
    with capture_output() as captured:
        result = widget.f(**fixed | values)
        show_inline_matplotlib_plots()
        if widget.auto_display and result is not None:
            display(result)
    if captured.stderr:
        raise RuntimeError(f"{widget.f.__name__} at {values} wrote: {captured.stderr[:300]}")
    outputs: list[dict[str, Any]] = []
    if captured.stdout:
        outputs.append({"output_type": "stream", "name": "stdout", "text": captured.stdout})
    places: dict[str, int] = {}  # of displays that may change
    for shown in captured.outputs:
        data = dict(shown.data)
        if "image/png" in data:
            data = {"image/png": _small(data["image/png"])}
        metadata = dict(shown.metadata or {})
        output = {"output_type": "display_data", "data": data, "metadata": metadata}
        identity = (shown.transient or {}).get("display_id")
        if shown.update and identity in places:
            outputs[places[identity]] = output
            continue
        if identity:
            places[identity] = len(outputs)
        outputs.append(output)
    return [one for one in outputs if "text" in one or any(one["data"].values())]


def _small(png: str | bytes) -> str:
    """Return a plot as base64 in few colours: the most frequent ones of a drawing as they are."""
    import numpy as np
    from PIL import Image

    raw = base64.b64decode(png) if isinstance(png, str) else png
    packed = io.BytesIO()
    with Image.open(io.BytesIO(raw)) as picture:
        rgba = picture.convert("RGBA")
    opaque = Image.new("RGB", rgba.size, "white")
    opaque.paste(rgba, mask=rgba.getchannel("A"))
    red, green, blue = np.moveaxis(np.asarray(opaque).astype(int), 2, 0)
    codes = (red << 16) + (green << 8) + blue
    codes, where, counts = np.unique(codes.ravel(), return_inverse=True, return_counts=True)
    often = np.argsort(counts)[::-1][:COLOURS]
    if counts[often].sum() > DRAWN * where.size:
        colours = np.stack([codes >> 16, codes >> 8 & 255, codes & 255], axis=1)
        distance = ((colours[:, None] - colours[often]) ** 2).sum(axis=2)
        nearest = distance.argmin(axis=1).astype(np.uint8)
        few = Image.fromarray(nearest[where].reshape(red.shape), "P")
        few.putpalette(colours[often].astype(np.uint8).tobytes())
    else:
        few = opaque.quantize(256, dither=Image.Dither.NONE)
    few.save(packed, "png", optimize=True)
    return base64.b64encode(min(raw, packed.getvalue(), key=len)).decode()


def _word(value: float, form: str) -> str:
    try:
        return format(value, form)
    except ValueError:  # a format of d3 that Python does not have
        return str(value)
