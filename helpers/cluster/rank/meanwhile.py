"""What a rank tells and asks while its cell runs.

The watcher writes the end of the output, now and then. Of ``input()`` and ``breakpoint()`` the
notebook is asked, and the rank waits asleep.
"""

from __future__ import annotations

import builtins
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.cluster.rank import state
from helpers.cluster.rank.state import LIVE_LINES, Part, tail

if TYPE_CHECKING:
    from helpers.cluster.rank.capture import Capture

AFTER = 0.8  # seconds: a cell that takes longer shows its output while it runs
EVERY = 0.2
LOOK_SECONDS = 0.05  # for an answer


class Meanwhile:
    """The output so far of one rank's cells."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._folder, self._rank = folder, rank
        self._lock = threading.Lock()
        self._capture: Capture | None = None  # of the cell that runs
        self._told: list[Part] = []
        self._next = 0.0

    def begin(self, capture: Capture) -> None:
        """Tell of a new cell; the notebook's side has taken away what was told of the last."""
        with self._lock:
            self._capture, self._next = capture, time.monotonic() + AFTER
            self._told = []

    def end(self) -> None:
        """Leave the rest to the reply."""
        with self._lock:
            self._capture = None

    def tell(self, *, now: bool = False) -> None:
        """Write the end of what is new, if the cell takes long or it is asked for `now`."""
        with self._lock:
            capture, at = self._capture, time.monotonic()
            if capture is None or (at < self._next and not now):
                return
            self._next = at + EVERY
            parts = tail(capture.look(), LIVE_LINES)
            if parts != self._told:
                self._told = parts
                state.leave(self._folder, "live", self._rank, parts)


class RankInput:
    """The ``input()`` of one rank's code, forwarded to the reader."""

    def __init__(self, folder: Path, rank: int, meanwhile: Meanwhile) -> None:
        self._folder, self._rank, self._meanwhile = folder, rank, meanwhile
        self._lock = threading.Lock()  # one request at a time
        self._number = 0
        self._interrupted = False

    @contextmanager
    def forwarded(self) -> Iterator[None]:
        """Forward what is asked inside."""
        self._interrupted = False
        before, builtins.input = builtins.input, self.read
        try:
            yield
        finally:
            builtins.input = before

    def read(self, prompt: object = "", /) -> str:
        """Ask the reader, as ``input`` does; raise EOFError where nobody can answer."""
        with self._lock:
            if self._interrupted:  # the debugger goes on after an interrupt; here it ends
                raise EOFError
            self._number += 1
            self._meanwhile.tell(now=True)
            told = {"number": self._number, "prompt": str(prompt)}
            state.leave(self._folder, "input", self._rank, told)
            try:
                answer = self._answer()
            except KeyboardInterrupt:
                self._interrupted = True
                raise
            finally:
                state.leave(self._folder, "input", self._rank, None)
        if answer["refused"]:
            print(answer["refused"])
            raise EOFError(answer["refused"])
        print(f"{prompt}{answer['text']}")
        return answer["text"]

    def _answer(self) -> dict:
        while True:
            answer = state.left(self._folder, "answer", self._rank)
            if answer and answer["number"] == self._number:
                return answer
            time.sleep(LOOK_SECONDS)
