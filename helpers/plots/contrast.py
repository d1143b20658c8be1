"""How light a colour is to the eye, by which WCAG 2.2 defines contrast."""

from __future__ import annotations

from collections.abc import Sequence


def luminance(shade: str | Sequence[float]) -> float:
    """Return a colour's relative luminance, from 0 (black) to 1; that of contrasts is 0.05 more.

    >>> luminance("white"), round(luminance("#0072B2"), 3)
    (1.0, 0.152)
    """
    from matplotlib.colors import to_rgb

    linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in to_rgb(shade)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
