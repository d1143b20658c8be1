"""Checks of what a reader passes to a cluster."""

from __future__ import annotations

import numbers
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

TIME = re.compile(r"(\d+-)?\d+(:\d\d){0,2}")


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


@dataclass(frozen=True)
class Wishes:
    """The arguments of a Cluster that only some launchers understand; empty: not given."""

    hosts: tuple[str, ...] = ()
    partition: str = ""
    account: str = ""
    time_limit: str = ""
    options: tuple[str, ...] = ()

    @classmethod
    def checked(
        cls,
        launcher: str,
        n: int,
        hosts: Any,
        partition: Any,
        account: Any,
        time_limit: Any,
        options: Any,
    ) -> Wishes:
        """Check what a reader passed; raise ValueError for what cannot be, or would be ignored."""
        for name, value in (("partition", partition), ("account", account)):
            if value is not None and not (isinstance(value, str) and value.strip()):
                raise ValueError(f"{name}={value!r}: expected a name that Slurm knows")
        if time_limit is not None and not TIME.fullmatch(str(time_limit)):
            raise ValueError(
                f"time_limit={time_limit!r}: expected minutes, or text as Slurm writes it: "
                "'1:30:00' for an hour and a half, '2-0' for two days"
            )
        made = cls(
            _words("hosts", hosts, "names of hosts, such as ('node1', 'node2')", "-"),
            partition or "",
            account or "",
            "" if time_limit is None else str(time_limit),
            _words("options", options, "options of sbatch, such as ('--nodes=2',)"),
        )
        for name, value in made.__dict__.items():
            needed = "ssh" if name == "hosts" else "slurm"
            if value and launcher != needed:
                raise ValueError(f"{name}={value!r} needs launcher={needed!r}, got {launcher!r}")
        if launcher == "ssh" and not 1 <= len(made.hosts) <= n:
            raise ValueError(
                f"hosts={made.hosts!r} with n={n}: launcher='ssh' expected names of hosts, from 1 "
                "to as many as there are ranks"
            )
        return made


def _words(name: str, value: Any, expected: str, never: str = "") -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(f"{name}={value!r}: expected {expected}")
    words = tuple(value)
    bad = any(
        not isinstance(word, str)
        or not word.strip()
        or (bool(never) and (word.startswith(never) or not re.fullmatch(r"[\w.@-]+", word)))
        for word in words
    )
    if bad:
        raise ValueError(f"{name}={words!r}: expected {expected}")
    return words
