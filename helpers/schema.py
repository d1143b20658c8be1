"""The JSON schema of dataclasses and typed dicts, made from their annotations; and its check.

``Annotated[str, {"minLength": 1}]`` adds JSON Schema's own keywords to a type. Standard library
only; of JSON Schema, no more than records need.
"""

from __future__ import annotations

import math
import re
import types
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, NotRequired, get_args, get_origin, get_type_hints, is_typeddict

NAMES = {str: "string", int: "integer", float: "number", dict: "object", types.NoneType: "null"}
TYPES: dict[str, Any] = {
    "object": Mapping,
    "array": Sequence,
    "string": str,
    "integer": int,
    "number": (int, float),
    "null": types.NoneType,
}
RULES = {  # keyword: whether a value keeps to it, and what was expected where not
    "const": (lambda value, wanted: value == wanted, "{!r}"),
    "minLength": (lambda value, least: len(value) >= least, "a string that is not empty"),
    "pattern": (lambda value, wanted: re.search(wanted, value), "a string like {}"),
    "minimum": (lambda value, least: value >= least, "a number of at least {}"),
}


class SchemaError(ValueError):
    """Data that break a schema; the message says where and what was expected."""


def schema_of(kind: Any) -> dict:
    """Return the JSON schema of a type.

    >>> schema_of(dict[str, int | None])
    {'type': 'object', 'additionalProperties': {'type': ['integer', 'null']}}

    Parameters
    ----------
    kind
        A dataclass, a TypedDict, a list, a tuple of any length, a dict from str, a union of plain
        types, or one of str, int, float, dict and None; Annotated with keywords of JSON Schema.

    Returns
    -------
    dict
        Its schema. A field is required if it has no default.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return schema_of(inner[0]) | {k: v for rules in inner[1:] for k, v in rules.items()}
    if origin is NotRequired:
        return schema_of(inner[0])
    if origin is types.UnionType:
        return {"type": [NAMES[one] for one in inner]}
    if origin in (list, tuple):
        return {"type": "array", "items": schema_of(inner[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": schema_of(inner[1])}
    if is_dataclass(kind) or is_typeddict(kind):
        return {
            "type": "object",
            "additionalProperties": False,
            "required": _required(kind),
            "properties": {
                name: schema_of(one)
                for name, one in get_type_hints(kind, include_extras=True).items()
            },
        }
    return {"type": NAMES[kind]}


def _required(kind: type) -> list[str]:
    if is_typeddict(kind):
        hints = get_type_hints(kind, include_extras=True)
        return [name for name, one in hints.items() if get_origin(one) is not NotRequired]
    return [
        one.name
        for one in fields(kind)
        if one.default is MISSING and one.default_factory is MISSING
    ]


def check(data: Any, schema: Mapping, where: str) -> None:
    """Check data, as :mod:`json` reads them, against a schema that :func:`schema_of` made.

    Parameters
    ----------
    data
        What is checked.
    schema
        What it must follow.
    where
        What the data are called in messages.

    Raises
    ------
    SchemaError
        The data break the schema, or hold a number that is not finite.
    """
    expected = _expected(data, schema)
    if expected:
        raise SchemaError(f"{where}: expected {expected}, got {data!r}")
    if isinstance(data, Mapping):
        _check_keys(data, schema, where)
    elif "items" in schema:
        for index, value in enumerate(data):
            check(value, schema["items"], f"{where}[{index}]")


def _expected(data: Any, schema: Mapping) -> str:
    """Return what was expected in place of ``data`` itself; nothing where they are right."""
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_is(data, kind) for kind in kinds):
        return " or ".join(kinds)
    if isinstance(data, float) and not math.isfinite(data):
        return "a finite number"
    for keyword, (holds, says) in RULES.items():
        if keyword in schema and not holds(data, schema[keyword]):
            return says.format(schema[keyword])
    return ""


def _is(data: object, kind: str) -> bool:
    if isinstance(data, bool) or (isinstance(data, str) and kind != "string"):
        return False  # an int and a sequence to Python
    return isinstance(data, TYPES[kind])


def _check_keys(data: Mapping, schema: Mapping, where: str) -> None:
    for key in schema.get("required", ()):
        if key not in data:
            raise SchemaError(f"{where}: {key!r} is missing")
    known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
    for key, value in data.items():
        if key not in known and others is False:
            raise SchemaError(f"{where}: unknown key {key!r}; expected one of {sorted(known)}")
        check(value, known.get(key, others), f"{where}.{key}")
