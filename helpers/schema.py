"""Check what JSON holds against dataclasses and typed dicts, by their annotations alone.

``Annotated[str, {"minLength": 1}]`` adds a rule to a type. Standard library only.
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from typing import Annotated, Any, NotRequired, get_args, get_origin, get_type_hints, is_typeddict

ARRAY, OBJECT = ("array", Sequence), ("object", Mapping)
TYPES: dict[Any, tuple[str, Any]] = {  # what JSON calls a type, and how Python reads it
    str: ("string", str),
    int: ("integer", int),
    float: ("number", (int, float)),
    types.NoneType: ("null", types.NoneType),
    list: ARRAY,
    tuple: ARRAY,
    dict: OBJECT,
}
RULES = {  # whether a value keeps to a rule, and what is said where not
    "minLength": (lambda value, least: len(value) >= least, "a string that is not empty"),
    "pattern": (lambda value, wanted: re.search(wanted, value), "a string like {}"),
    "minimum": (lambda value, least: value >= least, "a number of at least {}"),
}


class SchemaError(ValueError):
    """Data that break a schema; the message says where and what was expected."""


def check(data: Any, kind: Any, where: str) -> None:
    """Refuse data, as :mod:`json` reads them, that are not of a type or hold no finite number.

    A type is a dataclass, a TypedDict, a list, a tuple of any length, a dict from str, a union of
    plain types, or one of str, int, float, dict, None and Any.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Annotated, NotRequired):
        check(data, inner[0], where)
        for keyword, wanted in (rule for rules in inner[1:] for rule in rules.items()):
            holds, says = RULES[keyword]
            if not holds(data, wanted):
                raise SchemaError(f"{where}: expected {says.format(wanted)}, got {data!r}")
        return
    allowed = inner if origin is types.UnionType else () if kind is Any else (kind,)
    named = [TYPES.get(get_origin(one) or one, OBJECT) for one in allowed]
    if named and not any(_is(data, one) for _, one in named):
        raise SchemaError(f"{where}: expected {' or '.join(n for n, _ in named)}, got {data!r}")
    if isinstance(data, float) and not math.isfinite(data):
        raise SchemaError(f"{where}: expected a finite number, got {data!r}")
    if origin in (list, tuple):
        for index, value in enumerate(data):
            check(value, inner[0], f"{where}[{index}]")
    elif isinstance(data, Mapping):
        for key, one in _keys(data, kind, where).items():
            check(data[key], one, f"{where}.{key}")


def _is(data: object, kind: Any) -> bool:
    if isinstance(data, bool) or (isinstance(data, str) and kind is not str):
        return False  # an int and a sequence to Python
    return isinstance(data, kind)


def _keys(data: Mapping, kind: Any, where: str) -> dict[str, Any]:
    """Return the type of each key of the data; refuse keys that are unknown or missing."""
    if kind in (dict, Any) or get_origin(kind) is dict:
        return dict.fromkeys(data, (*get_args(kind), Any, Any)[1])
    known = get_type_hints(kind, include_extras=True)
    if is_typeddict(kind):
        needed = [name for name, one in known.items() if get_origin(one) is not NotRequired]
    else:
        needed = [f.name for f in fields(kind) if f.default is f.default_factory is MISSING]
    for key in needed:
        if key not in data:
            raise SchemaError(f"{where}: {key!r} is missing")
    for key in data:
        if key not in known:
            raise SchemaError(f"{where}: unknown key {key!r}; expected one of {sorted(known)}")
    return {key: known[key] for key in data}
