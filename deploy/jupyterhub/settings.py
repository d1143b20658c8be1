"""What `make hub NAME=value` says: each value judged before the hub starts."""

from __future__ import annotations

import grp
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

NUMBER = r"(?=.*[1-9])\d+(?:\.\d+)?"  # above 0


class SettingError(Exception):
    """A value that does not fit: repeated, with what was expected."""


@dataclass(frozen=True)
class Settings:
    """The hub's settings; README.md has a table of what they mean."""

    memory: str = "5G"
    cores: float = 2.0
    idle: int = 3600  # seconds
    course: str = "parallel"
    exchange: Path = Path("/srv/nbgrader/exchange")
    state: Path = Path("/srv/jupyterhub")
    members: frozenset[str] = frozenset({"students", "teachers"})


def read(environment: Mapping[str, str]) -> Settings:
    """Return the settings of an environment, where an empty value is none; SettingError."""
    found: dict[str, object] = {}

    def take(name: str, pattern: str, expected: str) -> str:
        """Return a value, which may be empty."""
        value = environment.get(name, "")
        if value and not re.fullmatch(pattern, value):
            raise SettingError(f"{name}={value}: expected {expected}.")
        return value

    if value := take("MEMORY", rf"{NUMBER}[KMGT]", "a size with K, M, G or T, such as 5G"):
        found["memory"] = value
    if value := take("CORES", NUMBER, "a number of cores above 0, such as 2 or 0.5"):
        found["cores"] = float(value)
    if value := take("IDLE", r"0*[1-9]\d*", "whole seconds, 1 or more, such as 3600"):
        found["idle"] = int(value)
    if value := environment.get("COURSE", ""):
        found["course"] = Path(value).name
    for name in ("EXCHANGE", "STATE"):
        if value := take(name, r"/.+", "a folder, from / on"):
            if Path(value).exists() and not Path(value).is_dir():
                raise SettingError(f"{name}={value}: expected a folder, and it is a file.")
            found[name.lower()] = Path(value)
    if value := take(
        "MEMBERS", r"[^,\s]+(,[^,\s]+)*", "groups of users, such as students,teachers"
    ):
        found["members"] = groups(value)
    return Settings(**found)  # type: ignore[arg-type]


def groups(value: str) -> frozenset[str]:
    """Return the groups that a value names; SettingError for one that this machine lacks."""
    names = frozenset(value.split(","))
    for name in sorted(names):
        try:
            grp.getgrnam(name)
        except KeyError:
            raise SettingError(
                f"MEMBERS={value}: this machine has no group {name}, so none of it could log in: "
                f"groupadd {name}"
            ) from None
    return names


if __name__ == "__main__":
    try:
        read(os.environ)
    except SettingError as error:
        sys.exit(str(error))
