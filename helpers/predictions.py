"""A number that the reader says before it is measured: kept, and answered beside the result.

>>> swap = Prediction("ijk takes so many times as long as ikj", 3)
>>> swap.answer(12.0)
ijk takes so many times as long as ikj: you predicted 3; it is 12, 4 times your number
"""

from __future__ import annotations

import html
import math
import re
from dataclasses import dataclass
from typing import Any

from helpers import board, progress


@dataclass(frozen=True, repr=False)
class Folded:
    """What was measured, folded: the reader has predicted nothing yet, and still can."""

    of: str
    measured: str

    def __repr__(self) -> str:
        return f"{self.of}: you predicted nothing; it is {self.measured}"

    def _repr_html_(self) -> str:
        what, measured = html.escape(self.of), html.escape(self.measured)
        return (
            f'<details class="prediction"><summary>{what}: what do you predict?</summary>'
            f"<p>It is <b>{measured}</b></p></details>"
        )


def show_folded(of: str, measured: str) -> None:
    """Show what was measured such that the reader opens it."""
    from IPython.display import display

    display(Folded(of, measured))


@dataclass(frozen=True)
class Prediction:
    """What the reader said."""

    of: str
    said: float | str | None = None

    def __post_init__(self) -> None:
        board.said(self.of, self.said)

    def answer(self, measured: object, unit: str = "") -> None:
        """Print the prediction beside what came out; fold what came out where there is none."""
        answer(self.of, self.said, measured, unit)


def answer(of: str, said: Any, measured: Any, unit: str = "") -> None:
    """Print what was predicted beside what came out; fold this where that is None or ``...``.

    What was said before the first answer stays, whatever is typed afterwards.
    """
    if getattr(measured, "ndim", None) == 0:  # NumPy's numbers, some of which are no float
        measured = measured.item()
    board.came(of, plain := _shown(measured) if isinstance(measured, set) else measured)
    unit = f" {unit}" if unit else ""
    came, late = f"{_shown(measured)}{unit}", ""
    said = None if said is ... else said
    if said is not None:
        said, late = progress.settle(of, said, plain)
    if said is None:
        show_folded(of, came)
    else:
        print(f"{of}: you predicted {_shown(said)}{unit}; it is {came}"
              f"{_compared(of, said, measured)}{late}")  # fmt: skip


def _shown(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, set):
        return ", ".join(sorted(value))
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e6 else f"{value:.3g}"


def _names(said: Any) -> set[str]:
    """Take apart the names of a set, which may be said in any order."""
    text = ", ".join(map(str, said)) if isinstance(said, list | tuple | set) else str(said)
    return set(re.split(r"\s*,\s*|\s+and\s+", text.strip().lower()))


def _words(said: Any) -> str:
    """Leave out what does not change the meaning: an article, brackets, marks between words."""
    if isinstance(said, bool):
        said = "yes" if said else "no"
    text = re.sub(r"[\[\]()'\"]|\branks?\s+(?=\d)", "", str(said).strip().lower())
    text = re.sub(r"(?<=\w)[\s,_→-]+(?=\w)", " ", text)
    return re.sub(r"^(a|an|the|it) ", "", re.sub(r"s\b", "", text))


def _whole(of: str) -> int:
    """Return what the whole is, 1 or 100 (%), where the name says that it is a share; 0 else."""
    if "÷" in of:
        return 0
    if re.search("%|per cent", of):
        return 100
    return 1 if re.search("accuracy|probability|share", of) else 0


def _number(of: str, said: Any) -> Any:
    """Read the number in "85 %", "10^-3", "H = 2", of what is in ms in "3 ms"; else return all."""
    unit, whole = "", _whole(of)
    if isinstance(said, str):
        text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", said.replace("−", "-"))
        text = re.sub(r"(?<![\d.])10(\^|\*\*)([-+]?\d+)", r"1e\2", text)
        text = re.sub(r"^\s*(rank|about)\b", "", text.lower())
        read = re.fullmatch(r"(?:.*=)?\s*([-+]?\d*\.?\d+(?:e[-+]?\d+)?)\s*(\S*)\s*", text)
        units = ("", "%", "x", "×", "times", *re.findall(r"\w+", of.lower()))
        if not read or read[2] not in units:
            return said
        said, unit = float(read[1]), read[2]
    if not isinstance(said, int | float):
        return said
    per_cent = (unit == "%" and whole < 100) or (whole == 1 and said > 1)
    return said / 100 if per_cent else said


def _compared(of: str, said: Any, measured: Any) -> str:
    if isinstance(measured, set):
        return ": right" if _names(said) == _names(measured) else ": no"
    if isinstance(measured, str | bool):
        return ": right" if _words(said) == _words(measured) else ": no"
    said = _number(of, said)
    if said == measured:
        return ": right"
    if not (isinstance(said, int | float) and isinstance(measured, int | float)):
        return ""
    ratio, more = measured / said if said else math.inf, measured - said
    near = 1 / 1.25 <= ratio <= 1.25
    if (whole := _whole(of)) and abs(measured) <= whole:
        if near and abs(more) <= whole / 20:
            return ": right"
        return f", {abs(more):.3g} {'more' if more > 0 else 'less'} than your number"
    if not 0 < ratio < math.inf:
        return ""
    if near and isinstance(measured, int) and abs(measured) <= 20:  # a small count is exact
        return f", {ratio:.3g} times your number"
    if near and isinstance(measured, int) and float(said).is_integer():  # as any whole number is
        return f": near, {abs(more):,.0f} {'more' if more > 0 else 'less'} than your number"
    if near:
        return ": right"
    return f", {ratio:.3g} times your number"
