"""``input()`` and ``breakpoint()`` on a rank: the notebook is asked, the rank waits asleep."""

from __future__ import annotations

import builtins
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from helpers.cluster import state
from helpers.cluster.meanwhile import Meanwhile

LOOK_SECONDS = 0.05


class Questions:
    """What one rank's code asks."""

    def __init__(self, folder: Path, rank: int, meanwhile: Meanwhile) -> None:
        self._folder, self._rank, self._meanwhile = folder, rank, meanwhile
        self._lock = threading.Lock()  # one question at a time
        self._number = 0
        self._interrupted = False

    @contextmanager
    def forwarded(self) -> Iterator[None]:
        """Forward what is asked inside."""
        self._interrupted = False
        before, builtins.input = builtins.input, self.ask
        try:
            yield
        finally:
            builtins.input = before

    def ask(self, prompt: object = "", /) -> str:
        """Ask the reader, as ``input`` does; raise EOFError where nobody can answer."""
        with self._lock:
            if self._interrupted:  # the debugger goes on after an interrupt; here it ends
                raise EOFError
            self._number += 1
            self._meanwhile.tell(now=True)
            told = {"number": self._number, "prompt": str(prompt)}
            state.leave(self._folder, "ask", self._rank, told)
            try:
                answer = self._answer()
            except KeyboardInterrupt:
                self._interrupted = True
                raise
            finally:
                state.leave(self._folder, "ask", self._rank, None)
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
