"""Who computes and who waits, as SVG that plays at a click; without a script."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

from helpers.plots.style import BLUE, VERMILION

if TYPE_CHECKING:
    from IPython.display import HTML

OWN = "\0"  # ends the button's name until the picture's own ending is known
LEFT, WIDTH, TOP, LANE, BAR = 150, 900, 56, 34, 22  # pixels
SLOWER = 8  # times slower than it was


def waiting(
    recorded: Mapping[str, Sequence[Sequence[tuple[float, float]]]], late: int | None = None
) -> HTML:
    """Return a picture of when ranks computed; what is blank between two gradients is waiting.

    Still at first, with everything in it; a click plays it. ValueError if a record has no gradient.

    Parameters
    ----------
    recorded : mapping of str to sequence
        What it is → for each rank the beginnings and ends (s) of its gradients; a rank without any
        is a server. All are shown for as long as the shortest took.
    late : int, optional
        The rank that is drawn as the slow one.
    """
    from IPython.display import HTML

    for name, ranks in recorded.items():
        if not any(ranks):
            raise ValueError(f"waiting expects a gradient in each record; {name!r} has none")
    until = min(max(end for spans in ranks for _, end in spans) for ranks in recorded.values())
    scale = (WIDTH - LEFT - 20) / until
    parts, told, y = [], [], TOP
    for name, ranks in recorded.items():
        done = sum(end <= until + 1e-9 for spans in ranks for _, end in spans)
        said = f"{name}: {done} gradients in {until:.2f} s"
        told.append(said)
        parts.append(f'<text x="4" y="{y + 14}" font-weight="bold">{escape(said)}</text>')
        y += LANE - 6
        for rank, spans in enumerate(ranks):
            server = "" if spans else ": server"
            parts.append(f'<text x="4" y="{y + 16}">rank {rank}{server}</text>')
            parts.append(
                f'<path d="M{LEFT} {y + BAR // 2}H{WIDTH - 20}" stroke="#8c8c8c" stroke-width="1"/>'
            )
            colour = VERMILION if rank == late else BLUE
            parts += [
                _bar(LEFT + begin * scale, y, (min(end, until) - begin) * scale, colour, begin,
                     min(end, until))
                for begin, end in spans if begin < until
            ]  # fmt: skip
            y += LANE
        y += 14
    seconds = SLOWER * until
    cursor = (
        f'<path d="M{LEFT} {TOP}V{y - 14}" stroke="#000" stroke-width="2" opacity="0">'
        f'<set attributeName="opacity" to="1" begin="play{OWN}.click" dur="{seconds:.2f}s"/>'
        f'<animateTransform attributeName="transform" type="translate" from="0" '
        f'to="{until * scale:.1f}" begin="play{OWN}.click" dur="{seconds:.2f}s"/></path>'
    )
    text = "".join([_head(y, "; ".join(told)), *parts, cursor, "</svg>"])
    return HTML(text.replace(OWN, hashlib.sha256(text.encode()).hexdigest()[:8]))


def _head(height: int, label: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="course-figure" role="group" '
        f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" aria-label="{escape(label)}" '
        f'style="max-width: 100%; background: white; font: 17px sans-serif">'
        f'<g id="play{OWN}" style="cursor: pointer">'
        f'<rect x="4" y="6" width="330" height="36" rx="6" fill="{BLUE}"/>'
        f'<text x="18" y="30" fill="white">▶ play, {SLOWER} times slower than it was</text></g>'
    )


def _bar(x: float, y: int, width: float, colour: str, begin: float, end: float) -> str:
    """One gradient: there from the first, and drawn again as time comes to it."""
    start = f"play{OWN}.click+{SLOWER * begin:.2f}s" if begin else f"play{OWN}.click"
    hidden = (
        f'<set attributeName="width" to="0" begin="play{OWN}.click" dur="{SLOWER * begin:.2f}s"/>'
        if begin
        else ""
    )
    return (
        f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{BAR}" fill="{colour}" '
        f'stroke="white"><title>{1e3 * (end - begin):.0f} ms of computing</title>{hidden}'
        f'<animate attributeName="width" from="0" to="{width:.1f}" begin="{start}" '
        f'dur="{SLOWER * (end - begin):.2f}s"/></rect>'
    )
