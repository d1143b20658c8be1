"""A number that the reader says before it is measured: kept, and answered beside the result.

>>> swap = Prediction("ijk takes so many times as long as ikj", 3)
>>> swap.answer(12.0)
ijk takes so many times as long as ikj: you said 3, measured 12, 4 times your number
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Prediction:
    """What the reader said.

    Parameters
    ----------
    of : str
        What it is a prediction of.
    said : float or str or None
        The reader's number or word; None where nothing was typed in yet.
    """

    of: str
    said: float | str | None = None

    def answer(self, measured: float | str, unit: str = "") -> None:
        """Print the prediction beside what came out.

        Parameters
        ----------
        measured : float or str
            What a cell has measured, of the same kind as ``said``.
        unit : str, optional
            Of both.
        """
        unit = f" {unit}" if unit else ""
        said = "you said nothing" if self.said is None else f"you said {_shown(self.said)}{unit}"
        print(
            f"{self.of}: {said}, measured {_shown(measured)}{unit}{_compared(self.said, measured)}"
        )


def _shown(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.3g}"


def _compared(said: float | str | None, measured: float | str) -> str:
    if said is None:
        return ""
    if isinstance(said, str) or isinstance(measured, str):
        return ": right" if str(said).strip().lower() == str(measured).lower() else ": no"
    if said == measured:
        return ": right"
    if not (said > 0 and measured > 0 and math.isfinite(measured / said)):
        return ""
    ratio = measured / said
    if 1 / 1.25 <= ratio <= 1.25:
        return ": right"
    return (
        f", {ratio:.3g} times your number" if ratio > 1 else f", 1/{1 / ratio:.3g} of your number"
    )
