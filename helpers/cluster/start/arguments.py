"""Checks of what a reader passes to a cluster."""

from __future__ import annotations

import numbers
import re
from collections.abc import Iterable
from typing import Any


def whole_number(name: str, value: Any, limit: int) -> int:
    """Return a whole number from 1 to `limit`; raise ValueError for anything else."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise ValueError(f"{name}={value!r}: expected a whole number from 1 to {limit}")
    if not 1 <= int(value) <= limit:
        raise ValueError(f"{name}={value}: expected from 1 to {limit}")
    return int(value)


def positive(name: str, value: Any) -> float:
    """Return a finite number of seconds above 0; raise ValueError for anything else."""
    if not isinstance(value, numbers.Real) or not 0 < float(value) < float("inf"):
        raise ValueError(f"{name}={value!r}: expected a number of seconds above 0")
    return float(value)


def words(name: str, value: Any, expected: str, pattern: str = r".*\S.*") -> tuple[str, ...]:
    """Return texts that match a pattern as a tuple; raise ValueError for anything else."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(f"{name}={value!r}: expected {expected}")
    found = tuple(value)
    if not all(isinstance(word, str) and re.fullmatch(pattern, word) for word in found):
        raise ValueError(f"{name}={found!r}: expected {expected}")
    return found
