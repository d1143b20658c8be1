"""The notebook's side of a question: one rank after the other asks, the others rest meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from helpers.cluster import state

if TYPE_CHECKING:
    from helpers.cluster.processes import Processes

TURN_SECONDS = 0.5  # so long a rank that was answered may take to ask again, before another may
REFUSED = "nobody can answer here: only a notebook that somebody runs cell by cell asks its reader"

Ask = Callable[[int, str], str]  # given rank and prompt, what the reader types


def ask_here(rank: int, prompt: str) -> str:
    """Ask the reader of this cell what a rank wants to know; return what was typed."""
    return input(f"[{rank}] {prompt}")


class Dialogue:
    """The questions that ranks ask during one call."""

    def __init__(self, processes: Processes, pids: dict[int, int], ask: Ask) -> None:
        self._processes, self._pids, self._ask = processes, pids, ask
        self._answered: dict[int, int] = {}  # the number of each rank's last question
        self._speaker = -1
        self._turn_ends = 0.0

    def serve(self, running: set[int]) -> float:
        """Let the reader answer a question, if there is one; return how many seconds that took."""
        asked = {
            rank: told
            for rank in running
            if (told := state.left(self._processes.state_dir, "ask", rank))
            and told["number"] > self._answered.get(rank, 0)
        }
        begin = time.monotonic()
        same = self._speaker in running and begin < self._turn_ends
        if not asked or (same and self._speaker not in asked):
            return 0.0
        rank = self._speaker if self._speaker in asked else min(asked)
        others = [self._pids[other] for other in running - set(asked)]
        answer = {"number": asked[rank]["number"], "text": "", "refused": ""}
        try:
            self._processes.rest(others)
            answer["text"] = self._ask(rank, asked[rank]["prompt"])
        except (EOFError, NotImplementedError):  # ipykernel: a frontend that cannot ask
            answer["refused"] = REFUSED
        finally:
            self._processes.go_on(others)
        state.leave(self._processes.state_dir, "answer", rank, answer)
        self._answered[rank], self._speaker = answer["number"], rank
        self._turn_ends = time.monotonic() + TURN_SECONDS
        return time.monotonic() - begin
