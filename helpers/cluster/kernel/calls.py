"""Calls of one cluster's ranks, one at a time, and new ranks in place of those that are lost."""

from __future__ import annotations

import contextlib
import re
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, ClassVar, Self

from helpers.cluster.errors import (
    ClusterError,
    RankDiedError,
    RankError,
    RanksInterrupted,
    RankTimeoutError,
    positive,
)
from helpers.cluster.kernel import report
from helpers.cluster.kernel.gathering import Gathering, OnInput, OnProgress, Outcome, noted
from helpers.cluster.kernel.live import Below
from helpers.cluster.kernel.starting import wait_ready
from helpers.cluster.rank import remote, state

if TYPE_CHECKING:
    import ipyparallel

    from helpers.cluster.start.processes import Processes
    from helpers.tracing.clock import Clock

DEFAULT_TIMEOUT = 30.0  # seconds
DEFINES = re.compile(r"^(import|from|def|class|async def|@\w+)\b", re.MULTILINE)
QUERY_SECONDS = remote.ANSWER_SECONDS + 0.2


class Calls:
    """What a Cluster does beneath the surface, and what magics call."""

    n: int
    start_timeout: float
    running: bool
    _processes: Processes
    _live: ClassVar[weakref.WeakSet] = weakref.WeakSet()
    _death: tuple[int | None, str] = (None, "")
    _query: ipyparallel.AsyncResult | None = None  # the last that query() sent
    _library = ""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._engine_ids: list[int] = []  # of ipyparallel, in rank order; empty: not ready
        self._pids: dict[int, int] = {}  # of each rank
        self._hosts: dict[int, str] = {}  # of each rank
        self._defining: dict[str, None] = {}  # cells that import or define something, in order

    def submit(
        self,
        function: Callable[..., dict],
        *args: object,
        timeout: float,
        only: list[int] | None = None,
        on_progress: OnProgress | None = None,
        on_input: OnInput | None = None,
    ) -> Outcome:
        """Call a function of :mod:`helpers.cluster.rank.remote`; :meth:`settle` may then raise.

        `only` names ranks, by default all. `on_progress` gets a function that returns the replies
        so far, every 0.1 s; `on_input` gets it too, and asks the reader what a rank wants to know.
        """
        timeout = positive("timeout", timeout)
        ranks = self.some_ranks(only)
        with self._exclusive():
            self._ensure_ready()
            client = self._processes.connect()
            engines = client.direct_view([self._engine_ids[rank] for rank in ranks])
            for rank in ranks:  # which may begin late: what it told of its last call is no more
                state.leave(self._processes.state_dir, "live", rank, None)
            # the future of each rank's message: a result of its own would cost 0.4 ms a rank
            sent = engines.apply_async(function, *args)._children
            calls = dict(zip(ranks, sent, strict=True))
            gathering = Gathering(
                self._processes, client, calls, self._pids, on_input or Below().read_input
            )
            outcome = gathering.wait(timeout, *([on_progress] if on_progress else []))
            if outcome.cut == "died":
                self._note_death(outcome.lost)
            if not outcome.all_back:
                with noted():  # an interrupt is told of already, or there is worse to tell
                    self._relaunch()
            return outcome

    def remember(self, cell: str) -> None:
        """Keep a cell of all ranks if it imports or defines something: new ranks do that again."""
        if DEFINES.search(cell):
            self._defining.pop(cell, None)
            self._defining[cell] = None

    def query(self, function: Callable[..., dict], *args: object, rank: int = 0) -> dict | None:
        """Ask one rank for a small value; return None if it is busy, not ready or gone."""
        unanswered = self._query is not None and not self._query.ready()
        if unanswered or not self.running or not self._lock.acquire(blocking=False):
            return None
        try:
            if not self._engine_ids:
                return None
            client = self._processes.connect()
            view = client.direct_view(self._engine_ids[rank])
            self._query = view.apply_async(function, *args)
            client.wait([self._query], QUERY_SECONDS)
            if not self._query.ready():
                return None
            answer = self._query.get()
            client.purge_local_results([self._query])
            return answer
        except Exception:  # whatever it is, the next cell will say it better
            return None
        finally:
            self._lock.release()

    def some_ranks(self, only: list[int] | None) -> list[int]:
        """Return the ranks that a call is for, in order, each once; None stands for all."""
        ranks = list(range(self.n)) if only is None else sorted(set(only))
        bad = [rank for rank in ranks if not 0 <= rank < self.n]
        if bad or not ranks:
            raise ValueError(f"ranks {bad or ranks} asked for; this cluster has 0 to {self.n - 1}")
        return ranks

    def clocks(self) -> dict[int, Clock]:
        """Measure every rank's clock against rank 0's."""
        outcome = self.submit(remote.side, "clock", timeout=DEFAULT_TIMEOUT)
        self.settle(outcome, DEFAULT_TIMEOUT)
        return {rank: reply.value for rank, reply in outcome.replies.items()}

    def settle(self, outcome: Outcome, timeout: float) -> None:
        """Raise what the outcome calls for; return if every rank replied without an error."""
        lost = not outcome.all_back
        tracebacks = report.tracebacks(outcome.replies)
        if outcome.cut == "died":
            raise RankDiedError(
                report.died(*self._death, tracebacks, self._processes.after_loss), self._death[0]
            )
        if outcome.cut == "interrupt":
            raise RanksInterrupted(report.interrupted(outcome.waits, lost))
        if outcome.cut == "timeout":
            message = report.timed_out(timeout, outcome.waits, tracebacks, lost)
            raise RankTimeoutError(message, outcome.waits)
        if tracebacks:
            raise RankError(report.failed(tracebacks, outcome.waits, lost), tracebacks)

    @classmethod
    def only_live(cls) -> Self:
        """Return this kernel's only running cluster, which a cell means if it names none."""
        live = [cluster for cluster in cls._live if cluster.running]
        if len(live) == 1:
            return live[0]
        if not live:
            raise ClusterError("no cluster is running: start one with 'cluster = Cluster(n=4)'")
        raise ClusterError(
            f"{len(live)} clusters are running: say which one, as in '%%ranks cluster'"
        )

    def _exclusive(self) -> AbstractContextManager:
        if not self._lock.acquire(blocking=False):
            raise ClusterError("the ranks are busy with another call: wait until it ends")
        held = contextlib.ExitStack()
        held.callback(self._lock.release)
        return held

    def _ensure_ready(self) -> None:
        if not self.running:
            raise ClusterError("this cluster was stopped: start another with 'Cluster(n=...)'")
        self._processes.keep_folder()
        known = self._processes.registered() if self._engine_ids else []
        lost = [rank for rank, id_ in enumerate(self._engine_ids) if id_ not in known]
        if lost or (self._engine_ids and self._processes.ranks_exited()):
            self._note_death(lost)
            self._relaunch()
            raise RankDiedError(
                report.died(*self._death, {}, self._processes.after_loss), self._death[0]
            )
        if not self._engine_ids:
            self._wait_ready()

    def _note_death(self, lost: list[int]) -> None:
        self._death = self._processes.dead_rank()
        if lost and self._death == (None, ""):
            self._death = self._processes.lost_rank(lost)

    def _relaunch(self) -> None:
        """Replace the ranks; the new ones get ready while the reader reads."""
        self._engine_ids = []
        self._query = None
        self._processes.kill_ranks()
        self._processes.start_ranks()

    def _wait_ready(self) -> None:
        hellos = wait_ready(self._processes, self.start_timeout, again=bool(self._library))
        self._library = hellos[0]["library"]
        self._engine_ids = [hello["id"] for hello in hellos]
        self._pids = {hello["rank"]: hello["pid"] for hello in hellos}
        self._hosts = {hello["rank"]: hello["host"] for hello in hellos}
        if not self._processes.local:
            self._processes.host_names = [hello["host"] for hello in hellos]
        self._define_again()

    def _define_again(self) -> None:
        """Have new ranks import and define what the lost ones had; leave it out if that hangs."""
        if not self._defining:
            return
        client, cells = self._processes.connect(), [*self._defining]
        replies = client.direct_view(self._engine_ids).apply_async(remote.side, "define", cells)
        replies.wait(DEFAULT_TIMEOUT)
        if replies.ready():
            client.purge_local_results(replies)
        else:
            self._defining.clear()
            self._relaunch()
            self._wait_ready()
