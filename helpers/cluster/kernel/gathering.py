"""Wait for the ranks' replies: until all are in, a limit is reached, or waiting is hopeless."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from helpers.cluster.rank import state
from helpers.cluster.rank.state import Part
from helpers.cluster.start import stuck
from helpers.cluster.start.stuck import Wait

if TYPE_CHECKING:
    from ipyparallel import Client
    from ipyparallel.client.futures import MessageFuture

    from helpers.cluster.start.processes import Processes


STEP_SECONDS = 0.1  # how often a death, the limit and a hopeless wait are looked for
GRACE_SECONDS = 3.0  # what an interrupted rank gets to come back from Python code
HOPELESS_SECONDS = 1.0
TURN_SECONDS = 0.5  # so long a rank that was answered may take to ask again, before another may
REFUSED = "nobody can answer here: only a notebook that somebody runs cell by cell asks its reader"

OnProgress = Callable[[Callable[[], "dict[int, Reply]"]], None]
OnInput = Callable[[Callable[[], "dict[int, Reply]"], int, str], str]
ReadInput = Callable[[int, str], str]  # given rank and prompt, what the reader types
Cut = Literal["", "timeout", "hopeless", "died", "interrupt"]  # why waiting ended early


@dataclass
class Reply:
    """What one rank gave back: a value or an error, and everything it printed or displayed.

    `status` is ``"ok"``, ``"error"``, ``"interrupted"``, ``"pending"`` while there is no reply, or
    ``"lost"`` if the controller hears no more of the rank.
    """

    rank: int
    status: Literal["ok", "error", "interrupted", "pending", "lost"] = "pending"
    value: Any = None
    ename: str = ""
    evalue: str = ""
    traceback: str = ""
    seconds: float = 0.0
    events: list | None = None
    dropped: int = 0
    parts: list[Part] = field(default_factory=list)


@dataclass
class Outcome:
    """The replies of all ranks asked, in rank order, and why waiting ended early if it did.

    `cut` is ``""``, ``"timeout"``, ``"hopeless"``, ``"died"`` or ``"interrupt"``. Unless
    `all_back`, a rank is still inside its code, so that the ranks must be restarted.
    """

    replies: dict[int, Reply]
    cut: Cut = ""
    waits: list[Wait] = field(default_factory=list)
    all_back: bool = True

    @property
    def lost(self) -> list[int]:
        """The ranks of which the controller hears no more, though nobody saw them end."""
        return [rank for rank, reply in self.replies.items() if reply.status == "lost"]


class Gathering:
    """One call that is under way."""

    def __init__(
        self,
        processes: Processes,
        client: Client,
        calls: dict[int, MessageFuture],
        pids: dict[int, int],
        on_input: OnInput,
    ) -> None:
        self._requests = InputRequests(processes, pids, partial(on_input, self._so_far))
        self.processes = processes
        self.pids = pids
        self.client = client
        self.calls = calls

    def wait(self, timeout: float, on_progress: OnProgress = lambda so_far: None) -> Outcome:
        """Collect the replies; interrupt the ranks that have none when the time is up.

        Every 0.1 s, `on_progress` gets a function that returns the replies so far.
        """
        cut: Cut = ""
        waits: list[Wait] = []
        try:
            cut, waits = self._wait_until(time.monotonic() + timeout, on_progress)
            if cut == "timeout":
                self._interrupt()
        except KeyboardInterrupt:
            with noted() as again:  # whoever presses twice wants the same
                cut, waits = "interrupt", self._waits()
                self._interrupt(again)
        all_back = not self._running() and cut != "died"
        outcome = Outcome(self.replies(), cut, waits, all_back)
        if all_back:
            self.client.purge_local_results([call.msg_id for call in self.calls.values()])
        return outcome

    def replies(self) -> dict[int, Reply]:
        """Return what is known of each rank so far, in rank order."""
        return {rank: self._reply(rank) for rank in sorted(self.calls)}

    def _so_far(self) -> dict[int, Reply]:
        """Return the replies, and of ranks without one what they say meanwhile."""
        replies, folder = self.replies(), self.processes.state_dir
        for rank in self._running():
            told = state.left(folder, "live", rank) or []
            replies[rank].parts = [(kind, content) for kind, content in told]
        return replies

    def _wait_until(self, deadline: float, on_progress: OnProgress) -> tuple[Cut, list[Wait]]:
        while True:
            self._wait(min(STEP_SECONDS, max(0.0, deadline - time.monotonic())))
            running = self._running()
            told = {reply.status for reply in self.replies().values()}
            if "lost" in told or (running and self.processes.ranks_exited()):
                return "died", self._waits()
            if not running:
                return "", []
            if "error" in told:
                waits = self._waits()
                if stuck.hopeless(waits, set(self.calls) - running, HOPELESS_SECONDS) == running:
                    return "hopeless", waits
            if time.monotonic() >= deadline:
                return "timeout", self._waits()
            on_progress(self._so_far)
            deadline += self._requests.serve(running)

    def _interrupt(self, again: Sequence[int] = ()) -> None:
        """Raise KeyboardInterrupt on the ranks, and give those in Python code time to come back.

        Once something is in ``again`` they get no more time.
        """
        begin = time.monotonic()
        self.processes.interrupt_ranks()
        while time.monotonic() < begin + GRACE_SECONDS and not again:
            self._wait(STEP_SECONDS)
            if time.monotonic() > begin + 0.5:
                inside = {wait.rank for wait in self._waits() if wait.call}
                if self._running() <= inside:  # MPI: no signal can end that
                    return

    def _wait(self, seconds: float) -> None:
        self.client.wait(list(self.calls.values()), seconds)

    def _running(self) -> set[int]:
        return {rank for rank, call in self.calls.items() if not call.done()}

    def _waits(self) -> list[Wait]:
        return self.processes.waits(self._running(), self.pids)

    def _reply(self, rank: int) -> Reply:
        call = self.calls[rank]
        if not call.done():
            return Reply(rank, parts=self._parts_so_far(call.msg_id))
        result = call.result()
        if not isinstance(result, Exception):
            return Reply(rank, **result)
        # ipyparallel's own error: the engine died, or the value did not travel
        name, text = getattr(result, "ename", type(result).__name__), str(result)
        status: Literal["lost", "error"] = "lost" if name == "EngineError" else "error"
        parts = self._parts_so_far(call.msg_id)
        return Reply(rank, status, ename=name, evalue=text, traceback=text, parts=parts)

    def _parts_so_far(self, message: str) -> list[Part]:
        """Return what has come from a rank that has not replied, by ipyparallel's own way."""
        told = self.client.metadata[message]
        texts = [(name, told[name]) for name in ("stdout", "stderr") if told[name]]
        return [*texts, *(("display", content) for content in told["outputs"])]


class InputRequests:
    """What the ranks of one call want typed: one rank after the other asks, the others rest."""

    def __init__(self, processes: Processes, pids: dict[int, int], read_input: ReadInput) -> None:
        self._processes, self._pids, self._read_input = processes, pids, read_input
        self._answered: dict[int, int] = {}  # the number of each rank's last request
        self._speaker = -1
        self._turn_ends = 0.0

    def serve(self, running: set[int]) -> float:
        """Let the reader answer a request, if there is one; return how many seconds that took."""
        asked = {
            rank: told
            for rank in running
            if (told := state.left(self._processes.state_dir, "input", rank))
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
            answer["text"] = self._read_input(rank, asked[rank]["prompt"])
        except (EOFError, NotImplementedError):  # ipykernel: a frontend that cannot ask
            answer["refused"] = REFUSED
        finally:
            self._processes.go_on(others)
        state.leave(self._processes.state_dir, "answer", rank, answer)
        self._answered[rank], self._speaker = answer["number"], rank
        self._turn_ends = time.monotonic() + TURN_SECONDS
        return time.monotonic() - begin


LATER = 0.05  # seconds; by then the collector that called has returned


@contextlib.contextmanager
def noted() -> Iterator[list[int]]:
    """Note each Ctrl-C in the list instead of raising it, until the block has ended.

    Only the main thread is interrupted; in another, or where the program left interrupts to the
    system, nothing changes.
    """
    came: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield came
        return
    signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield came
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Keep Ctrl-C until the block has ended.

    Ranks are also ended when the last reference to their cluster goes. What is raised there Python
    can only print: the rest of the ending would be left out, and the interrupt lost. So it is sent
    again a moment later, to whatever the program does then.
    """
    came: list[int] = []
    try:
        with noted() as came:
            yield
    finally:
        if came:
            again = threading.Timer(LATER, os.kill, (os.getpid(), signal.SIGINT))
            again.daemon = True
            with contextlib.suppress(RuntimeError):  # the interpreter is ending, as was asked
                again.start()
