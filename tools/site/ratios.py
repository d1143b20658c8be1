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


def strip(
    caption: str,
    ends: tuple[str, str],
    rows: Mapping[str, tuple[Sequence[tuple[str, float, float, float]], str]],
) -> str:
    """Return the picture of effects in margins: a dot with its interval for each, a row a label.

    ``rows`` has of each label its effects (word, effect, and the interval's ends) and what stands
    to the right of them. Between −1 and 1, which is shaded, nothing counts.
    """
    most = 1.1 * max(abs(effect) for effects, _ in rows.values() for _, effect, *_ in effects)

    def place(value: float) -> float:
        inside = max(-most, min(most, value))
        return round(50 + 50 * math.asinh(inside) / math.asinh(most), 1)

    ticks = "".join(
        f'<i style="left:{place(k)}%">{f"{k:+d}".replace("-", "−") if k else "0"}</i>'
        for k in (-100, -10, -1, 0, 1, 10, 100)
        if abs(k) < most
    )
    left, right = (f"<em>{html.escape(end)}</em>" for end in ends)
    lines = [f'<span></span><span class="ends">{left}{right}</span><span></span>']
    lines += [f'<span>effect, in margins</span><span class="ticks">{ticks}</span><span></span>']
    for label, (effects, said) in rows.items():
        bars = "".join(
            f'<u style="left:{place(low)}%;right:{100 - place(high):.1f}%"></u>'
            for _, _, low, high in effects
        )
        dots = "".join(
            f'<b class="{word}" style="left:{place(x)}%"></b>' for word, x, *_ in effects
        )
        track = f'<span class="track">{bars}{dots}</span>'
        lines.append(f"<span>{label}</span><span>{track}</span><span>{said}</span>")
    style = f"--one:50%;--low:{place(-1)}%;--high:{place(1)}%"
    grid = f'<div class="ratios strip" style="{style}">{"".join(lines)}</div>'
    return f"<figure><figcaption>{html.escape(caption)}</figcaption>{grid}</figure>"
