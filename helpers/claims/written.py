"""How the numbers, units, formulas and dates of a record are written."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime

SPACE = "\u00a0"  # does not break a line
TIMES = f"×{SPACE}"
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
TIME = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}  # seconds in one
LEAST = 0.01  # of a table's unit, where a smaller unit can help


def typeset(text: str) -> str:
    """Return a text with its powers and indices as HTML, and 10⁻⁶ for 1e-6.

    >>> typeset("‖∂h_T‖ stays within 1e-6 of ‖U‖^k by two_level")
    '‖∂h<sub>T</sub>‖ stays within 10⁻⁶ of ‖U‖<sup>k</sup> by two_level'
    """
    text = re.sub(r"(?<![\w.])1e(-?\d+)", lambda found: "10" + found[1].translate(RAISED), text)
    text = re.sub(r"\^(\w+)", r"<sup>\1</sup>", text)
    return re.sub(r"(?<!\w)([A-Za-z])_(\w+)", r"\1<sub>\2</sub>", text)


def effect_of(given: Mapping) -> list[str]:
    """Return an effect and the ends of its interval, with no more digits than the interval has."""
    numbers = [given["effect"], *given["interval"]]
    if given["scale"] == "ratio":
        factors = [None if number is None else 1 + number for number in numbers]
        digits = next((d for d in (2, 3) if len({factor(one, d) for one in factors}) == 3), 3)
        return [factor(one, digits) for one in factors]
    known = [number for number in numbers if number is not None]
    width = (max(known) - min(known)) / 5
    places = max(0, math.ceil(-math.log10(width))) if width else 3
    if any(end and not round(end, places) for end in numbers[1:]):
        places += 1  # so that no end is shown as 0
    return ["∞" if one is None else f"{one:+.{places}f}".replace("-", "−") for one in numbers]


def factor(value: float | None, digits: int) -> str:
    """Return a ratio with so many digits: × 4.8; None is infinite."""
    if value is None:
        return "∞"
    if 10**digits <= value < 1e6:
        return f"{TIMES}{float(f'{value:.{digits}g}'):,.0f}"  # 1,000 for 1.0e+03
    return TIMES + powers(f"{value:#.{digits}g}".removesuffix("."))


def powers(text: str) -> str:
    """Write 2.5·10¹⁸ for 2.5e+18."""
    number, _, power = text.partition("e")
    return f"{number}·10{str(int(power)).translate(RAISED)}" if power else number


def percent(share: float) -> str:
    """Return a share as per cent, with two digits below ten."""
    value = 100 * share
    return f"{value:.0f}{SPACE}%" if value >= 10 or not value else f"{value:.2g}{SPACE}%"


def in_one_unit(values: Sequence[float | None], unit: str) -> tuple[list[str], str]:
    """Return values in one unit, and its name: 0.03 and 20, ms.

    It is the largest value's unit, or a smaller one if the least value has too many zeros in it.
    """
    sizes = sorted((abs(one) for one in values if one), reverse=True) or [0.0]
    scales = [_scale(size, unit) for size in sizes]
    by, name = next((scale for scale in scales if sizes[-1] * scale[0] >= LEAST), scales[0])
    return ["" if one is None else _text(one * by, "") for one in values], name


def quantity(value: float | None, unit: str) -> str:
    """Return a value that can be read: 30 µs for 2.998e-05 s, 315 GB/s for 3.151e+11 bytes/s."""
    if value is None:
        return ""
    by, name = _scale(abs(value), unit)
    return _text(value * by, name)


def _scale(value: float, unit: str) -> tuple[float, str]:
    """Return by what to multiply a value of this size, and the unit that it then has."""
    if unit in TIME:
        seconds = value * TIME[unit]
        places = ((1, 1, "s"), (1e-3, 1e3, "ms"), (1e-6, 1e6, "µs"), (0, 1e9, "ns"))
        by, name = next((by, name) for least, by, name in places if seconds >= least or not seconds)
        return by * TIME[unit], name
    if unit in ("bytes/s", "flop/s") and value >= 1e6:
        large = value >= 1e9
        return (1e-9 if large else 1e-6), ("G" if large else "M") + unit.replace("bytes", "B")
    return 1, unit


def _text(value: float, unit: str) -> str:
    text = f"{value:,.0f}" if 1e3 <= abs(value) < 1e12 else powers(f"{value:.3g}")
    return f"{text}{SPACE}{unit}".removesuffix(f"{SPACE}1").rstrip(SPACE)


def day(date: str) -> str:
    """Return a record's date as it is written in a text, on one line.

    >>> day("2026-11-02T10:00:00Z").split()
    ['2', 'November', '2026']
    """
    found = datetime.fromisoformat(date.replace("Z", "+00:00"))
    return f"{found.day}{SPACE}{found:%B}{SPACE}{found.year}"
