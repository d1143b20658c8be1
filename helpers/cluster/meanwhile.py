"""A rank tells what its cell has given so far: the watcher writes the end of it, now and then."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from helpers.cluster import state
from helpers.cluster.capture import Capture, Part, tail

AFTER = 0.8  # seconds: a cell that takes longer shows its output while it runs
EVERY = 0.2


class Meanwhile:
    """The output so far of one rank's cells."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._folder, self._rank = folder, rank
        self._lock = threading.Lock()
        self._capture: Capture | None = None  # of the cell that runs
        self._told: list[Part] = []
        self._next = 0.0

    def begin(self, capture: Capture) -> None:
        """Tell of a new cell, and no more of the one before."""
        with self._lock:
            self._capture, self._next = capture, time.monotonic() + AFTER
            if self._told:
                self._told = []
                state.leave(self._folder, "live", self._rank, None)

    def end(self) -> None:
        """Leave the rest to the reply."""
        self._capture = None

    def tell(self, *, now: bool = False) -> None:
        """Write the end of what is new, if the cell takes long or it is asked for `now`."""
        with self._lock:
            capture, at = self._capture, time.monotonic()
            if capture is None or (at < self._next and not now):
                return
            self._next = at + EVERY
            parts = tail(capture.look(), state.LIVE_LINES)
            if parts != self._told:
                self._told = parts
                state.leave(self._folder, "live", self._rank, parts)
