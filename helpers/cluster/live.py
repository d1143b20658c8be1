"""What the ranks have given so far, while the cell still runs."""

from __future__ import annotations

import time

from helpers.cluster import report
from helpers.cluster.gathering import Reply

LIVE_AFTER = 1.0  # seconds: output of a longer cell is shown while it runs
LIVE_EVERY = 0.5


class Live:
    """Shows the output so far of a cell that takes long, and takes it away for the final one."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._next = self._begin + LIVE_AFTER
        self._shown = ""

    def update(self, replies: dict[int, Reply]) -> None:
        """Print what the ranks have printed so far, if there is something new.

        Parameters
        ----------
        replies : dict of int to Reply
            As far as they are known.
        """
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + LIVE_EVERY
        text = "\n".join(
            report.label(rank, part)
            for rank, reply in replies.items()
            for kind, part in reply.parts
            if kind == "stdout"
        )
        if text and text != self._shown:
            self.clear()
            print(text, flush=True)
            self._shown = text

    def clear(self) -> None:
        """Take the shown text away as soon as something else is printed."""
        if self._shown:
            from IPython.display import clear_output

            clear_output(wait=True)
            self._shown = ""
