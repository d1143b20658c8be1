"""Which parts of a figure keep their colours in a dark theme: photographs, and maps by colour.

In a dark theme JupyterLab and the site show a figure as light ink on black. That is right for what
is drawn as ink on paper, and makes a negative of a photograph. A figure's metadata therefore name
the parts that stay as they are; ``dark.js`` of the JupyterLab extension ``course-figures`` obeys.
"""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 72.0  # of an inch, in which matplotlib measures an SVG
PAPER = 0.5  # luminance of a map's lowest colour from which the map is ink on paper: gray_r


def luminance(shade: str | Sequence[float]) -> float:
    """Return how light a colour is to the eye, from 0 (black) to 1, as WCAG 2.2 has it.

    Contrasts are of luminances that are 0.05 more.

    >>> luminance("white"), round(luminance("#0072B2"), 3)
    (1.0, 0.152)
    """
    from matplotlib.colors import to_rgb

    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in to_rgb(shade)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def kept(figure: Figure, shown: Any) -> list[list[float]] | None:
    """Return the parts of a picture of a figure that keep their colours.

    ``shown`` is the picture as it was just drawn: a PNG, plain or in base64, an SVG, or something
    else. A part is its left, upper, right and lower edge, from 0 at the picture's left and upper
    edge to 1 at the others. None: there are some, and where in the picture they lie is not known,
    so it must stay as it is.
    """
    parts = list(_parts(figure))
    if not parts:
        return []
    left, low, right, high = _seen(figure, shown) or (0, 0, 0, 0)
    width, height = right - left, high - low
    if not width:
        return None
    edges = [
        ((x0 - left) / width, (high - y1) / height, (x1 - left) / width, (high - y0) / height)
        for x0, y0, x1, y1 in parts
    ]
    return [[round(float(min(1.0, max(0.0, edge))), 4) for edge in one] for one in edges]


def _parts(figure: Figure) -> Iterator[tuple[float, float, float, float]]:
    """Yield left, lower, right and upper edge of each, in inches of the figure."""
    from matplotlib.collections import QuadMesh
    from matplotlib.contour import ContourSet
    from matplotlib.transforms import Bbox

    for ax in figure.axes:
        maps = [part for part in ax.collections if isinstance(part, QuadMesh | ContourSet)]
        bar = getattr(ax, "_colorbar", None)
        for part in [*ax.images, *maps]:
            of = bar.mappable if bar is not None else part
            if not (ax.get_visible() and part.get_visible()) or _is_ink(of):
                continue
            place = ax.bbox if part in maps else part.get_window_extent()
            inside = Bbox.intersection(place, ax.bbox)
            if inside is not None:
                yield tuple(inside.extents / figure.dpi)


def _is_ink(part: Any) -> bool:
    """Whether a map begins with paper, or is none: points by colour lie on the figure's ground."""
    from matplotlib.collections import QuadMesh
    from matplotlib.contour import ContourSet
    from matplotlib.image import AxesImage

    if not isinstance(part, AxesImage | QuadMesh | ContourSet):
        return True
    if isinstance(part, ContourSet) and not part.filled:
        return True
    values = part.get_array()
    if values is None or (isinstance(part, AxesImage) and values.ndim == 3):
        return False
    return luminance(part.get_cmap()(0.0)[:3]) > PAPER


def _seen(figure: Figure, shown: Any) -> tuple[float, float, float, float] | None:
    """Return the edges of what of the figure is in the picture, in inches; None if unknown."""
    from matplotlib import rcParams

    if not (size := _size(shown)):
        return None
    width, height, dpi = size[0], size[1], size[2] or figure.dpi
    tight = figure.get_tightbbox()
    cut = tight.padded(rcParams["savefig.pad_inches"]).extents
    for left, low, right, high in (cut, figure.bbox_inches.extents):
        per = width / (right - left)  # pixels of an inch, twice as many on some screens
        if abs(height - per * (high - low)) <= 2 and round(per / dpi, 2) in (1, 2):
            return left, low, right, high
    return None


def _size(shown: Any) -> tuple[float, float, float | None] | None:
    """Return width, height, and how many of them make an inch: None if as many as the dpi."""
    head = shown[:2000].encode() if isinstance(shown, str) else bytes(shown[:2000])
    if opened := re.search(rb"<svg\s[^>]*>", head):
        sides = dict(re.findall(rb'\s(width|height)="([\d.]+)pt"', opened[0]))
        known = sides.keys() == {b"width", b"height"}
        return (float(sides[b"width"]), float(sides[b"height"]), POINTS) if known else None
    if not head.startswith(b"\x89PNG"):
        try:
            head = base64.b64decode(head[:32])
        except ValueError:
            return None
    return (*struct.unpack(">II", head[16:24]), None) if head.startswith(b"\x89PNG") else None
