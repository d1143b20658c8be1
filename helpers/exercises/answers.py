"""What an answer gave, of whatever type: a number of any library, parts in a row, letters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from helpers.exercises.core import short, wrong


def number(got: Any, what: str) -> float:
    """Return an answer's single number, of Python's, NumPy's or torch's."""
    try:
        if not isinstance(got, str | bytes | bool) and getattr(got, "shape", ()) == ():
            return float(got)
    except (TypeError, ValueError, OverflowError):
        pass
    wrong(f"{what}: expected a number, got {short(got)}")


def whole_number(got: Any, what: str) -> int:
    """Return an answer's single whole number, of any type: a float that is whole, too."""
    if (value := number(got, what)).is_integer():
        return int(value)
    wrong(f"{what}: expected a whole number, got {short(got)}")


def whole_numbers(got: Any, what: str) -> list[int]:
    """Return an answer's list or array of whole numbers."""
    try:
        if len(got) is not None and not isinstance(got, Mapping):  # an iterator could be read once
            whole = [int(number) for number in got]
            if all(number == given for number, given in zip(whole, got, strict=True)):
                return whole
    except (TypeError, ValueError):
        pass
    wrong(f"{what}: expected whole numbers in a list or an array, got {short(got)}")


def several(got: Any, count: int, expected: str) -> list:
    """Return the parts of an answer that has several: a tuple, a list, an array, an iterator."""
    ordered = not isinstance(got, str | bytes | Mapping | set | frozenset)
    if ordered and isinstance(got, Iterable) and getattr(got, "shape", (1,)) != ():
        if len(parts := list(got)) == count:
            return parts
        wrong(f"{expected}; got {len(parts)} parts: {short(got)}")
    wrong(f"{expected}; got {short(got)}")


def letters(got: Any, order: str) -> set[str]:
    """Return the letters that an answer names, written together, or apart in any way.

    In a variant statements stand in another ``order``: "CABDE" if the one named A was C.
    """
    known = "".join(sorted(order))
    texts = [got] if isinstance(got, str) else got
    if not isinstance(texts, list | tuple | set | frozenset) or not all(
        isinstance(text, str) for text in texts
    ):
        wrong(f"expected letters in quotes, such as '{known[0]}{known[-1]}', got {got!r}")
    words = re.sub(r"[\s,;.:]|\bAND\b", " ", " ".join(texts).upper()).split()
    found = set("".join(words))
    expected = f"expected letters from {known[0]} to {known[-1]} in quotes"
    if unknown := sorted(found - set(known)):
        wrong(f"{expected}; there is no {', '.join(unknown)}")
    if not found:
        wrong(f"{expected}, got {got!r}")
    return {order[known.index(letter)] for letter in found}
