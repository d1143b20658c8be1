"""What a handful of runs says of the mean behind them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

CONFIDENCE = 0.95


def student(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the mean and Student's interval for it at 95 %.

    Parameters
    ----------
    values : sequence of float
        One for each run. A single one has an interval without ends.

    Returns
    -------
    tuple of float
        ``(mean, low, high)``, in the unit of the values.

    Raises
    ------
    ValueError
        Without a value.
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
