"""What the ranks have given so far, while the cell still runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from helpers.cluster import folding, report
from helpers.cluster.capture import tail
from helpers.cluster.dialogue import ask_here
from helpers.cluster.folding import Group
from helpers.cluster.gathering import Reply
from helpers.cluster.state import LIVE_LINES

LIVE_AFTER = 1.0  # seconds: output of a longer cell is shown while it runs
LIVE_EVERY = 0.3
LINES_BEFORE = 12  # of a rank's output, above its question


class Live:
    """Shows the output so far of a cell that takes long, and takes it away for the final one."""

    def __init__(self) -> None:
        self._next = time.monotonic() + LIVE_AFTER
        self._shown: list[Group] = []

    def update(self, so_far: Callable[[], dict[int, Reply]]) -> None:
        """Show what the ranks have given so far, if there is something new and it is time.

        Parameters
        ----------
        so_far : callable
            Returns the replies as far as they are known.
        """
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + LIVE_EVERY
        self._show(so_far)

    def ask(self, so_far: Callable[[], dict[int, Reply]], rank: int, prompt: str) -> str:
        """Ask the reader, below what the ranks have given so far.

        Parameters
        ----------
        so_far : callable
            Returns the replies as far as they are known.
        rank : int
            Who wants to know.
        prompt : str
            What.

        Returns
        -------
        str
            What was typed.
        """
        self._show(so_far)
        return ask_here(rank, prompt)

    def _show(self, so_far: Callable[[], dict[int, Reply]]) -> None:
        replies = so_far()
        lines = max(1, LIVE_LINES // max(1, len(folding.groups(replies))))
        for reply in replies.values():
            reply.parts = tail(reply.parts, lines)
        groups = folding.groups(replies)
        if groups and groups != self._shown:
            self.clear()
            report.show(replies)
            sys.stdout.flush()
            self._shown = groups

    def clear(self) -> None:
        """Take what is shown away as soon as something else is."""
        if self._shown:
            from IPython.display import clear_output

            clear_output(wait=True)
            self._shown = []


def ask_below(so_far: Callable[[], dict[int, Reply]], rank: int, prompt: str) -> str:
    """Ask the reader, below the last lines that the rank has printed.

    Parameters
    ----------
    so_far : callable
        Returns the replies as far as they are known.
    rank : int
        Who wants to know.
    prompt : str
        What.

    Returns
    -------
    str
        What was typed.
    """
    reply = so_far()[rank]
    reply.parts = tail(reply.parts, LINES_BEFORE)
    report.show({rank: reply})
    return ask_here(rank, prompt)
