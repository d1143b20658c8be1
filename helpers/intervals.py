"""What a handful of runs says of the mean behind them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

CONFIDENCE = 0.95


def student(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean and Student's interval for it at 95 %: ``(mean, low, high)``.

    The interval of a single value has no ends.
    """
    if not values:
        raise ValueError(f"an interval expects one value at least; got {values!r}")
    mean = statistics.fmean(values)
    if len(values) < 2:
        return mean, -math.inf, math.inf
    from scipy.stats import t

    error = statistics.stdev(values) / math.sqrt(len(values))
    half = float(t.ppf((1 + CONFIDENCE) / 2, len(values) - 1)) * error
    return mean, mean - half, mean + half
