"""Checks of what a reader passes to a cluster."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any


def whole_number(name: str, value: Any, limit: int) -> int:
    """Check a whole number.

    Parameters
    ----------
    name : str
        What the number is for.
    value : object
        What was passed.
    limit : int
        The largest that is allowed; the smallest is 1.

    Returns
    -------
    int
        The number.

    Raises
    ------
    ValueError
        If it is none, or out of range.
    """
    if not isinstance(value, numbers.Integral) or isinstance(value, bool):
        raise ValueError(f"{name}={value!r}: expected a whole number from 1 to {limit}")
    if not 1 <= int(value) <= limit:
        raise ValueError(f"{name}={value}: expected from 1 to {limit}")
    return int(value)


def module_names(name: str, value: Any) -> tuple[str, ...]:
    """Check names of modules.

    Parameters
    ----------
    name : str
        What they are for.
    value : object
        What was passed.

    Returns
    -------
    tuple of str
        The names.

    Raises
    ------
    ValueError
        If there is something else among them.
    """
    names = () if isinstance(value, str) or not isinstance(value, Iterable) else tuple(value)
    good = all(
        isinstance(each, str) and all(map(str.isidentifier, each.split("."))) for each in names
    )
    if not good or (value and not names):
        raise ValueError(f"{name}={value!r}: expected names of modules, such as ('torch',)")
    return names


def positive(name: str, value: Any) -> float:
    """Check a number of seconds.

    Parameters
    ----------
    name : str
        What the number is for.
    value : object
        What was passed.

    Returns
    -------
    float
        The number.

    Raises
    ------
    ValueError
        If it is no number above 0, or infinite.
    """
    if not isinstance(value, numbers.Real) or not 0 < float(value) < float("inf"):
        raise ValueError(f"{name}={value!r}: expected a number of seconds above 0")
    return float(value)
