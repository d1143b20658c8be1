"""Many ratios in one picture of HTML: a row for each thing, a dot for each ratio, one log axis."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence

GOOD = 0.95  # from here on ours counts as good as the other


def times(value: float) -> str:
    """Return a factor with two digits: 0.013, 1.0, 42, 510."""
    return f"{float(f'{value:.2g}'):,.0f}" if value >= 9.95 else f"{value:#.2g}"


def picture(
    caption: str, ends: tuple[str, str], rows: Mapping[str, Mapping[str, Sequence[float]]]
) -> str:
    """Return the picture: ours is as good as the other at 1, and better to the right of it.

    ``rows`` has the factors of each label's lanes (a lane's name may be ""), ``ends`` says what is
    left and what is right of 1.
    """
    every = [value for lanes in rows.values() for values in lanes.values() for value in values]
    low, high = math.floor(math.log10(min(every))), math.ceil(math.log10(max(every)))

    def place(value: float) -> str:
        return f"{100 * (math.log10(value) - low) / (high - low):.1f}%"

    ticks = "".join(
        f'<i style="left:{place(10.0**k)}">{f"{10**k:,}" if k >= 0 else f"1/{10**-k:,}"}</i>'
        for k in range(low, high + 1)
    )
    left, right = (f"<em>{html.escape(end)}</em>" for end in ends)
    lines = [f'<span></span><span class="ends">{left}{right}</span><span></span>']
    lines += [f'<span></span><span class="ticks">{ticks}</span><span></span>']
    for label, lanes in rows.items():
        tracks, said = [], []
        for name, values in lanes.items():
            dots = "".join(
                f'<b style="left:{place(one)}"{"" if one >= GOOD else " class=worse"}></b>'
                for one in sorted(values)
            )
            tracks.append(f'<span class="track">{dots}</span>')
            ends_of = dict.fromkeys(map(times, (min(values), max(values))))
            said.append(f"{name} {' to '.join(ends_of)}".strip().replace(" ", "\u00a0"))
        lines += [f"<span>{label}</span><span>{''.join(tracks)}</span>"]
        lines[-1] += f"<span>{'<br>'.join(said)}</span>"
    style = f"--decades:{high - low};--one:{place(1)}"
    grid = f'<div class="ratios" style="{style}">{"".join(lines)}</div>'
    return f"<figure><figcaption>{html.escape(caption)}</figcaption>{grid}</figure>"
