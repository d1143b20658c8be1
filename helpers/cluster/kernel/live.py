"""What the ranks have given so far, while the cell still runs."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from helpers.cluster.kernel import folding
from helpers.cluster.kernel.folding import Group, label
from helpers.cluster.rank.state import LIVE_LINES, Part, tail

if TYPE_CHECKING:
    from helpers.cluster.kernel.gathering import Reply

LIVE_AFTER = 1.0  # seconds: output of a longer cell is shown while it runs
LIVE_EVERY = 0.3
CLEAR_SECONDS = 0.5  # from an output to what must come after it
QUIET_SECONDS = 2.0  # after an answer, in which more is asked, as a debugger does

SoFar = Callable[[], "dict[int, Reply]"]


def input_here(rank: int, prompt: str) -> str:
    """Ask the reader of this cell what a rank wants to know; return what was typed."""
    return input(f"[{rank}] {prompt}")


class Below:
    """Asks below what the rank has printed since its last question."""

    def __init__(self) -> None:
        self._seen: dict[int, list[str]] = {}

    def note(self, rank: int, parts: list[Part]) -> list[str]:
        """Take down what the reader sees of a rank; return the lines that are new."""
        seen, lines = self._seen.get(rank, []), []
        if parts:
            lines = folding.as_text([([rank], parts)]).split("\n")
        self._seen[rank] = lines
        common = next(n for n in range(len(seen), -1, -1) if seen[len(seen) - n :] == lines[:n])
        return lines[common:]

    def read_input(self, so_far: SoFar, rank: int, prompt: str) -> str:
        """Ask the reader."""
        new = self.note(rank, so_far()[rank].parts)
        if new:
            print("\n".join(new), flush=True)
        answer = input_here(rank, prompt)
        # the box of the question says it already, and the rank will
        self._seen[rank].append(label(rank, f"{prompt}{answer}"))
        return answer


class Live:
    """Shows the output so far of a cell that takes long, and takes it away for the final one."""

    def __init__(self) -> None:
        self._next = time.monotonic() + LIVE_AFTER
        self._shown: list[Group] = []
        self._cleared = 0.0
        self._below = Below()

    def update(self, so_far: SoFar) -> None:
        """Show what the ranks have given so far, if there is something new and it is time."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + LIVE_EVERY
        self._show(so_far)

    def read_input(self, so_far: SoFar, rank: int, prompt: str) -> str:
        """Ask the reader, below what the ranks have given so far."""
        # a question and outputs take different ways: an output that clears must not meet a question
        time.sleep(max(0.0, self._cleared + CLEAR_SECONDS - time.monotonic()))
        answer = self._below.read_input(so_far, rank, prompt)
        self._next = time.monotonic() + QUIET_SECONDS
        self._shown = self._shown or [([rank], [])]  # to take away in the end
        return answer

    def _show(self, so_far: SoFar) -> None:
        replies = so_far()
        for rank, reply in replies.items():
            self._below.note(rank, reply.parts)
        lines = max(1, LIVE_LINES // max(1, len(folding.groups(replies))))
        for reply in replies.values():
            reply.parts = tail(reply.parts, lines)
        groups = folding.groups(replies)
        if groups and groups != self._shown:
            self.clear()
            folding.show(replies)
            sys.stdout.flush()
            self._shown = groups

    def clear(self) -> None:
        """Take what is shown away as soon as something else is."""
        if self._shown:
            from IPython.display import clear_output

            clear_output(wait=True)
            self._shown = []
            self._cleared = time.monotonic()
