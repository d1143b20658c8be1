"""What can go wrong with ranks, each with a message that a reader can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from helpers.cluster.start.stuck import Wait

AFTER_LOSS = "The ranks were restarted: their variables are gone, the next cell works."


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
