"""Checks of what a reader passes to a cluster."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any


def whole_number(name: str, value: Any, limit: int) -> int:
    """Return a whole number from 1 to `limit`; raise ValueError for anything else."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise ValueError(f"{name}={value!r}: expected a whole number from 1 to {limit}")
    if not 1 <= int(value) <= limit:
        raise ValueError(f"{name}={value}: expected from 1 to {limit}")
    return int(value)


def module_names(name: str, value: Any) -> tuple[str, ...]:
    """Return names of modules as a tuple; raise ValueError for anything else."""
    names = () if isinstance(value, str) or not isinstance(value, Iterable) else tuple(value)
    good = all(
        isinstance(each, str) and all(map(str.isidentifier, each.split("."))) for each in names
    )
    if not good or (value and not names):
        raise ValueError(f"{name}={value!r}: expected names of modules, such as ('torch',)")
    return names


def positive(name: str, value: Any) -> float:
    """Return a finite number of seconds above 0; raise ValueError for anything else."""
    if not isinstance(value, numbers.Real) or not 0 < float(value) < float("inf"):
        raise ValueError(f"{name}={value!r}: expected a number of seconds above 0")
    return float(value)
