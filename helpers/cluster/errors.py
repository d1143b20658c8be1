"""What can go wrong with ranks, in words that a reader can act on; checks of what is passed."""

from __future__ import annotations

import numbers
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from helpers.cluster.start.stuck import Wait


AFTER_LOSS = (
    "The ranks were restarted. Imports and functions are there again; other variables are gone."
)


class ClusterError(RuntimeError):
    """A failure of the cluster or of code on its ranks.

    In a notebook only the message is shown: the frames of this package would hide the reader's own.
    """

    def _render_traceback_(self) -> list[str]:  # IPython's hook
        return f"{type(self).__name__}: {self}".splitlines()


class StartError(ClusterError):
    """The ranks could not be started."""


class RankError(ClusterError):
    """Code raised on one rank or more: ``tracebacks`` has that of each rank that did."""

    def __init__(self, message: str, tracebacks: dict[int, str]) -> None:
        super().__init__(message)
        self.tracebacks = tracebacks


class RankTimeoutError(ClusterError):
    """Ranks had not ended at the time limit; ``waits`` says what each of them was doing."""

    def __init__(self, message: str, waits: list[Wait]) -> None:
        super().__init__(message)
        self.waits = waits


class RankDiedError(ClusterError):
    """A rank's process ended; ``rank`` is None when it could not be told which."""

    def __init__(self, message: str, rank: int | None) -> None:
        super().__init__(message)
        self.rank = rank


class RanksInterrupted(ClusterError, KeyboardInterrupt):  # noqa: N818 (as KeyboardInterrupt)
    """The reader pressed stop while the ranks were at work."""


def whole_number(name: str, value: Any, limit: int) -> int:
    """Return a whole number from 1 to `limit`; raise ValueError for anything else."""
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or not 1 <= value <= limit:
        raise ValueError(f"{name}={value!r}: expected a whole number from 1 to {limit}")
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
