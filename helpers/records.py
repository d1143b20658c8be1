"""Measured records: one schema for every figure that this repository quotes.

A :class:`Record` is one run: the machine, the versions, the date, the command that repeats it, and
suites of :class:`Row`. ``write`` puts it in a folder under a name that no other run has, ``load``
reads a folder back, newest first, and ``newest`` finds the newest run that holds what is asked. The
annotations of these classes are the schema, which :func:`check` holds data against. Standard
library only: a machine with a GPU and no more than PyTorch can write records too.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import math
import re
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import (
    Annotated,
    Any,
    NotRequired,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from helpers.machine import Facts, machine, versions

__all__ = [
    "Record",
    "Row",
    "SchemaError",
    "load",
    "make",
    "newest",
    "validate",
    "write",
]


VERSION = 1  # of the schema
Found = TypeVar("Found")
Filled = Annotated[str, {"minLength": 1}]
Date = Annotated[str, {"pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"}]


class SchemaError(ValueError):
    """Data that break a schema; the message says where and what was expected."""


@dataclass(frozen=True)
class Row:
    """One figure: ``value`` is ours, ``peer_value`` is the peer's, measured in the same run.

    ``unit`` belongs to both (``"1"`` for a pure number). ``peer_value`` stays None where the peer
    is absent on this machine. ``parameters`` (sizes, ranks, dtype) identify the case within its
    name. Raises SchemaError for what is not a finite number, or for a peer's value without a name.
    """

    name: Filled
    value: float
    unit: Filled
    peer: str = ""
    peer_value: float | None = None
    parameters: dict = field(default_factory=dict)

    def __post_init__(self) -> None:
        for key, value in vars(self).items():
            object.__setattr__(self, key, _plain(value))
        check(vars(self), Row, f"Row({self.name!r})")
        if self.peer_value is not None and not self.peer:
            raise SchemaError(
                f"Row({self.name!r}): peer_value={self.peer_value!r} needs a peer's name, got ''"
            )

    @property
    def ratio(self) -> float | None:
        """Ours ÷ peer's: below 1 is better for a time, above 1 for a rate. None without a peer."""
        if self.peer_value is None or self.peer_value == 0:
            return None
        return self.value / self.peer_value


@dataclass(frozen=True)
class Record:
    """One run of measurements.

    ``machine``: where (:func:`helpers.machine.machine`). ``versions``: of Python, CUDA and packages
    that the figures may depend on. ``date``: when it ended, UTC, to the second. ``command`` repeats
    it, from the root of the repository. ``suites``: name → rows.
    """

    machine: Facts
    versions: dict[str, Filled]
    date: Date
    command: Filled
    suites: dict[str, tuple[Row, ...]]

    def as_dict(self) -> dict:
        """Return the JSON form, validated."""
        suites = {name: [asdict(row) for row in rows] for name, rows in self.suites.items()}
        return validate({"schema": VERSION, **asdict(replace(self, suites={})), "suites": suites})

    @classmethod
    def from_dict(cls, data: Mapping, where: str = "record") -> Record:
        """Make a Record of its JSON form; SchemaError names the place that breaks the schema."""
        validate(data, where)
        suites = {name: tuple(Row(**row) for row in rows) for name, rows in data["suites"].items()}
        kept = {key: data[key] for key in ("machine", "versions", "date", "command")}
        return cls(suites=suites, **kept)

    @property
    def gpu(self) -> str:
        """The first GPU's name, or an empty string."""
        return self.machine["gpus"][0]["name"] if self.machine["gpus"] else ""


def make(suites: Mapping[str, Iterable[Row]], command: str) -> Record:
    """Return ``suites``, measured just now on this machine, as a Record."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kept = {name: tuple(rows) for name, rows in suites.items()}
    return Record(machine(), versions(), now, command, kept)


def write(record: Record, folder: str | Path) -> Path:
    """Write ``record`` to ``folder``/MACHINE-DATE.json, never over another run; return the path."""
    text = json.dumps(record.as_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    slug = re.sub(r"[^a-z0-9]+", "-", record.machine["name"].lower()).strip("-") or "machine"
    stem = f"{slug}-{record.date.replace(':', '')}"
    for copy in itertools.count(1):
        path = folder / (f"{stem}.json" if copy == 1 else f"{stem}-{copy}.json")
        with contextlib.suppress(FileExistsError), path.open("x", encoding="utf-8") as file:
            file.write(text)
            return path
    raise AssertionError("unreachable")


def load(folder: str | Path, suite: str | None = None) -> list[Record]:
    """Return every record under ``folder``, newest first; with ``suite``, those that hold it.

    An absent folder holds no records; a file that is not a record raises SchemaError.
    """
    found = []
    for path in sorted(Path(folder).rglob("*.json")):
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise SchemaError(f"{path}: not JSON: {error}") from error
        found.append(Record.from_dict(data, str(path)))
    kept = [one for one in found if suite is None or suite in one.suites]
    return sorted(kept, key=lambda one: one.date, reverse=True)


def newest(
    folder: str | Path, suite: str, find: Callable[[Record, tuple[Row, ...]], Found | None]
) -> Found | None:
    """Return what the newest record of a suite says that holds it, or None.

    ``find(record, rows)`` is asked of the newest record first, until it returns something true.
    SchemaError if a file under ``folder`` is not a record.

    >>> newest(GPU_RECORDS, "cuda", lambda record, rows: record.gpu)  # doctest: +SKIP
    'NVIDIA H200'
    """
    answers = (find(one, one.suites[suite]) for one in load(folder, suite))
    return next(filter(None, answers), None)


def validate(data: Any, where: str = "record") -> dict:
    """Return ``data`` if it follows the schema; SchemaError says where it does not."""
    version = data.get("schema") if isinstance(data, Mapping) else VERSION
    if version != VERSION:
        raise SchemaError(f"{where}.schema: expected {VERSION}, got {version!r}")
    given = data if not isinstance(data, Mapping) else {k: data[k] for k in data if k != "schema"}
    check(given, Record, where)
    return data


def _plain(value: Any) -> Any:
    """Turn NumPy and torch scalars inside ``value`` into Python's own, so that JSON takes them."""
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, (str, int, float, bool)):
        return value.item() if hasattr(value, "item") else value  # numpy.float64 is a float
    try:
        return value.item()
    except (AttributeError, TypeError, ValueError, RuntimeError):
        return str(value)


# --- what JSON holds against dataclasses and typed dicts, by their annotations alone ----------
# ``Annotated[str, {"minLength": 1}]`` adds a rule to a type.
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
    known = _hints(kind)
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


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)
