"""``Cluster``: real MPI ranks that a notebook starts, calls, and always gets rid of."""

from __future__ import annotations

import contextlib
import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar

from helpers.cluster import remote, report
from helpers.cluster.arguments import module_names, positive, whole_number
from helpers.cluster.elsewhere import launched
from helpers.cluster.errors import (
    ClusterError,
    RankDiedError,
    RankError,
    RanksInterrupted,
    RankTimeoutError,
    StartError,
)
from helpers.cluster.forked import (
    VARIABLE,
    ForkedProcesses,
    remember_not_to_fork_here,
    way_here,
    why_not_to_fork_here,
)
from helpers.cluster.forkserver.handle import CannotFork
from helpers.cluster.gathering import AskAfter, Gathering, Outcome, Progress
from helpers.cluster.live import Below
from helpers.cluster.names import hidden
from helpers.cluster.network import Network
from helpers.cluster.processes import Processes
from helpers.cluster.progress import AtWork
from helpers.cluster.starting import wait_ready
from helpers.cluster.uninterrupted import noted, uninterrupted
from helpers.cluster.wishes import Wishes

if TYPE_CHECKING:
    import ipyparallel

    from helpers.tracing.clock import Clock

MAX_RANKS = 64  # on one machine; a rank takes about 80 MB before it imports anything
DEFAULT_TIMEOUT = 30.0  # seconds
ASK_SECONDS = remote.ANSWER_SECONDS + 0.2


class Cluster:
    """``n`` MPI ranks, each a Python process that keeps its variables between calls.

    Parameters
    ----------
    n : int
        The number of ranks.
    launcher : str
        ``"mpi"`` starts the ranks on this machine: forked from a warm process where that is
        possible (MPICH on Linux), each afresh on macOS, else by mpiexec. ``"spawn"`` and
        ``"mpiexec"`` insist on the latter two; ``COURSE_RANKS`` in the environment says what
        ``"mpi"`` is, for which ``slurm`` is a value too. ``"slurm"`` asks Slurm for a job, whose
        nodes it keeps when ranks are restarted; ``"ssh"`` starts them on ``hosts``, by mpiexec. In
        both the controller listens on one address of this host, the one that those hosts reach;
        what is said there is encrypted, and takes the key in the cluster's folder (``ranks-...``,
        made in the working directory, which all hosts must see). Any other engine launcher of
        ipyparallel (``"pbs"``, ``"sge"``...) does what its profile says.
    network : Network, optional
        Hosts within this machine, which the ranks are shared out to; None: all are on one.
    preload : iterable of str
        Modules that forked ranks have imported when they begin, and share the memory of; a warning
        says so where ranks are not forked.
    profile : str, optional
        The IPython profile that configures the launcher.
    threads : int
        What numerical libraries may use on each rank.
    start_timeout : float
        In seconds; time in a queue does not count.
    hosts : iterable of str
        Where ``launcher="ssh"`` puts the ranks, in blocks; names that ssh reaches without asking.
    partition, account, time_limit : str, optional
        Of the job with ``launcher="slurm"``, by default the profile's (``SlurmEngineSetLauncher``)
        or Slurm's own; a time such as ``"1:30:00"``, or in minutes.
    options : iterable of str
        More for sbatch, such as ``("--nodes=2", "--exclusive")``.

    Raises
    ------
    ValueError
        For an impossible ``n``, ``threads``, ``start_timeout`` or ``network``.
    StartError
        With the reason, when the ranks cannot be started.

    Examples
    --------
    >>> with Cluster(n=4) as cluster:
    ...     cluster.run(lambda: comm.allreduce(rank))
    [6, 6, 6, 6]
    """

    _live: ClassVar[weakref.WeakSet[Cluster]] = weakref.WeakSet()

    def __init__(
        self,
        n: int = 4,
        *,
        launcher: str = "mpi",
        network: Network | None = None,
        preload: Iterable[str] = (),
        profile: str | None = None,
        threads: int = 1,
        start_timeout: float = 60.0,
        hosts: Iterable[str] = (),
        partition: str | None = None,
        account: str | None = None,
        time_limit: str | int | None = None,
        options: Iterable[str] = (),
    ) -> None:
        limit = MAX_RANKS if launcher in ("mpi", "spawn", "mpiexec") else 100_000
        self.n = whole_number("n", n, limit)
        self.threads = whole_number("threads", threads, 4096)
        self.start_timeout = positive("start_timeout", start_timeout)
        self._lock = threading.Lock()
        self._at_work = AtWork()
        self._engine_ids: list[int] = []  # of ipyparallel, in rank order; empty: not ready
        self._pids: dict[int, int] = {}  # of each rank
        self._hosts: dict[int, str] = {}  # of each rank
        self.network = network
        self._library = ""
        modules = module_names("preload", preload)
        way = way_here() if launcher == "mpi" else launcher
        if profile and launcher == "mpi" and way != "slurm":
            way = "mpiexec"
        wishes = Wishes.checked(
            way if way == "slurm" else launcher,
            self.n,
            hosts,
            partition,
            account,
            time_limit,
            options,
        )
        if network is not None:
            _check_network(network, self.n, launcher, profile)
        if modules and way != "fork" and (launcher, way) != ("mpi", "slurm"):
            self._say_not_preloaded(modules, launcher)
        try:
            if way in ("fork", "spawn"):
                self._begin(ForkedProcesses(self.n, self.threads, modules, network, way))
        except CannotFork as error:
            if network is not None:
                raise StartError(f"{network!r} needs forked ranks: {error}.") from None
            if launcher == "spawn":
                raise
            remember_not_to_fork_here(str(error))
            if modules and way == "fork":
                self._say_not_preloaded(modules, launcher)
            way = "mpiexec"
        if way not in ("fork", "spawn"):
            self._begin(launched(way, self.n, self.threads, profile, wishes))
        Cluster._live.add(self)

    @staticmethod
    def _say_not_preloaded(modules: tuple[str, ...], launcher: str) -> None:
        why = why_not_to_fork_here() or _asked_otherwise() if launcher == "mpi" else None
        warnings.warn(
            f"preload={modules!r} changes nothing here: only ranks that are forked share what was "
            f"imported before, and these are not: {why or f'launcher={launcher!r}'}",
            stacklevel=3,
        )

    def _begin(self, processes: Processes) -> None:
        self._processes = processes
        self._finalizer = weakref.finalize(self, _stop, processes, os.getpid())
        try:
            processes.start()
            self._wait_ready()
        except BaseException:
            self.stop()
            raise

    # -- what a notebook calls ------------------------------------------------------------------

    def run(
        self,
        function: Callable[..., Any],
        /,
        *args: object,
        timeout: float = DEFAULT_TIMEOUT,
        **kwargs: object,
    ) -> list:
        """Call a function on every rank; show what the ranks print, labelled, in rank order.

        Parameters
        ----------
        function : callable
            It sees ``MPI``, ``comm``, ``rank``, ``size`` and the ranks' variables.
        *args : object
            Its arguments.
        timeout : float
            In seconds.
        **kwargs : object
            Its arguments by name.

        Returns
        -------
        list
            The results in rank order.

        Raises
        ------
        RankError
            If the function raised on some rank.
        RankTimeoutError
            After ``timeout`` seconds.
        RankDiedError
            If a rank's process ended.
        RanksInterrupted
            If the reader pressed stop.
        ValueError
            For a bad ``timeout``.
        """
        import pickle

        import cloudpickle

        if not callable(function):
            raise TypeError(f"run expects a function to call on the ranks, got {function!r}")
        for sentence in hidden(function):
            print(sentence)
        blob = cloudpickle.dumps((function, args, kwargs))
        self._at_work.begin()
        try:
            outcome = self.submit(
                remote.call, blob, False, timeout=timeout, on_progress=self._at_work.update
            )
        finally:
            self._at_work.clear()
        report.show(outcome.replies)
        self.settle(outcome, timeout)
        return [pickle.loads(reply.value) for reply in outcome.replies.values()]

    def restart(self) -> None:
        """End all ranks and start as many new ones; their variables are lost."""
        with self._exclusive():
            self._relaunch()
            self._wait_ready()

    def stop(self) -> None:
        """End the ranks and everything else that was started; safe to call again."""
        Cluster._live.discard(self)
        self._engine_ids = []
        self._finalizer()

    @property
    def running(self) -> bool:
        """Whether the cluster was started and not yet stopped."""
        return self._finalizer.alive

    @property
    def pids(self) -> list[int]:
        """The ranks' process ids, in rank order."""
        return [self._pids[rank] for rank in sorted(self._pids)]

    @property
    def hosts(self) -> list[str]:
        """The name of each rank's host, in rank order."""
        return [self._hosts[rank] for rank in sorted(self._hosts)]

    @property
    def client(self) -> ipyparallel.Client:
        """The ipyparallel Client underneath, for what this class does not offer.

        Ask for it again after a restart: now and then it is another one.
        """
        self._ensure_ready()
        return self._processes.connect()

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "running" if self.running else "stopped"
        where = f" on {self.network!r}" if self.network else ""
        return f"<Cluster: {self.n} ranks{where}, {self._library or 'no MPI yet'}, {state}>"

    # -- what the magic calls -------------------------------------------------------------------

    def submit(
        self,
        function: Callable[..., dict],
        *args: object,
        timeout: float,
        only: list[int] | None = None,
        on_progress: Progress | None = None,
        ask: AskAfter | None = None,
    ) -> Outcome:
        """Call a function of :mod:`helpers.cluster.remote`; wait for the replies.

        Parameters
        ----------
        function : callable
            One of that module.
        *args : object
            Its arguments.
        timeout : float
            In seconds.
        only : list of int, optional
            The ranks to call, by default all.
        on_progress : callable, optional
            Called every 0.1 s with a function that returns the replies so far.
        ask : callable, optional
            Asks the reader what a rank wants to know: given that function, the rank and the prompt.

        Returns
        -------
        Outcome
            The replies; it is :meth:`settle` that raises.

        Raises
        ------
        ClusterError
            If the ranks are busy with another call, or the cluster was stopped.
        RankDiedError
            If a rank's process had ended before the call.
        ValueError
            For a bad ``timeout`` or ``only``.
        """
        timeout = positive("timeout", timeout)
        ranks = self.some_ranks(only)
        with self._exclusive():
            self._ensure_ready()
            client = self._processes.connect()
            engines = client.direct_view([self._engine_ids[rank] for rank in ranks])
            # the future of each rank's message: a result of its own would cost 0.4 ms a rank
            sent = engines.apply_async(function, *args)._children
            calls = dict(zip(ranks, sent, strict=True))
            gathering = Gathering(self._processes, client, calls, self._pids, ask or Below().ask)
            outcome = gathering.wait(timeout, *([on_progress] if on_progress else []))
            if outcome.cut == "died":
                self._note_death(outcome.lost)
            if not outcome.all_back:
                with noted():  # an interrupt is told of already, or there is worse to tell
                    self._relaunch()
            return outcome

    def ask(self, function: Callable[..., dict], *args: object, rank: int = 0) -> dict | None:
        """Ask one rank something small; rather than wait for it, go without.

        Parameters
        ----------
        function : callable
            Of :mod:`helpers.cluster.remote`.
        *args : object
            Its arguments.
        rank : int
            Which.

        Returns
        -------
        dict or None
            None from ranks that are busy, not ready or gone, or have a question unanswered.
        """
        unanswered = self._question is not None and not self._question.ready()
        if unanswered or not self.running or not self._lock.acquire(blocking=False):
            return None
        try:
            if not self._engine_ids:
                return None
            client = self._processes.connect()
            view = client.direct_view(self._engine_ids[rank])
            self._question = view.apply_async(function, *args)
            client.wait([self._question], ASK_SECONDS)
            if not self._question.ready():
                return None
            answer = self._question.get()
            client.purge_local_results([self._question])
            return answer
        except Exception:  # whatever it is, the next cell will say it better
            return None
        finally:
            self._lock.release()

    def some_ranks(self, only: list[int] | None) -> list[int]:
        """Return the ranks that a call is for.

        Parameters
        ----------
        only : list of int or None
            Some of the ranks; None for all.

        Returns
        -------
        list of int
            In order, each once.

        Raises
        ------
        ValueError
            If there is no such rank, or none at all.
        """
        ranks = list(range(self.n)) if only is None else sorted(set(only))
        bad = [rank for rank in ranks if not 0 <= rank < self.n]
        if bad or not ranks:
            raise ValueError(f"ranks {bad or ranks} asked for; this cluster has 0 to {self.n - 1}")
        return ranks

    def clocks(self) -> dict[int, Clock]:
        """Measure every rank's clock against rank 0's.

        Returns
        -------
        dict of int to Clock
            By rank.
        """
        outcome = self.submit(remote.clock, timeout=DEFAULT_TIMEOUT)
        self.settle(outcome, DEFAULT_TIMEOUT)
        return {rank: reply.value for rank, reply in outcome.replies.items()}

    def settle(self, outcome: Outcome, timeout: float) -> None:
        """Raise what the outcome calls for; return if every rank replied without an error.

        Parameters
        ----------
        outcome : Outcome
            Of a call.
        timeout : float
            The call's limit in seconds.

        Raises
        ------
        RankError, RankTimeoutError, RankDiedError, RanksInterrupted
            As :meth:`run` does.
        """
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
    def only_live(cls) -> Cluster:
        """Return this kernel's only running cluster.

        Returns
        -------
        Cluster
            The one that a cell means if it names none.

        Raises
        ------
        ClusterError
            If none runs, or several.
        """
        live = [cluster for cluster in cls._live if cluster.running]
        if len(live) == 1:
            return live[0]
        if not live:
            raise ClusterError("no cluster is running: start one with 'cluster = Cluster(n=4)'")
        raise ClusterError(
            f"{len(live)} clusters are running: say which one, as in '%%ranks cluster'"
        )

    # -- inside ---------------------------------------------------------------------------------

    _death: tuple[int | None, str] = (None, "")
    _question: ipyparallel.AsyncResult | None = None  # the last that ask() asked

    def _exclusive(self) -> AbstractContextManager:
        if not self._lock.acquire(blocking=False):
            raise ClusterError("the ranks are busy with another call: wait until it ends")
        held = contextlib.ExitStack()
        held.callback(self._lock.release)
        return held

    def _ensure_ready(self) -> None:
        if not self.running:
            raise ClusterError("this cluster was stopped: start another with 'Cluster(n=...)'")
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
        self._question = None
        self._processes.kill_ranks()
        self._processes.start_ranks()

    def _wait_ready(self) -> None:
        hellos = wait_ready(self._processes, self.start_timeout, again=bool(self._library))
        self._library = hellos[0]["library"]
        self._engine_ids = [hello["id"] for hello in hellos]
        self._pids = {hello["rank"]: hello["pid"] for hello in hellos}
        self._hosts = {hello["rank"]: hello["host"] for hello in hellos}
        if not self._processes.local:
            self._processes.host_names = self.hosts


def _check_network(network: Any, n: int, launcher: str, profile: str | None) -> None:
    """Raise where ranks cannot be shared out so."""
    if not isinstance(network, Network):
        raise TypeError(f"network={network!r}: expected a Network, such as Network(hosts=2)")
    if launcher != "mpi" or profile:
        how = f"profile={profile!r}" if profile else f"launcher={launcher!r}"
        raise ValueError(f"{how} with {network!r}: hosts within this machine need launcher='mpi'")
    network.places(n)
    if (why := why_not_to_fork_here()) is not None or (why := _asked_otherwise()) is not None:
        raise StartError(f"{network!r} cannot be had here: {why}.")


def _asked_otherwise() -> str | None:
    """Tell that the environment asks for another way, None if it does not."""
    return None if (way := way_here()) == "fork" else f"{VARIABLE}={way!r}, and it needs a fork"


def _stop(processes: Processes, owner: int) -> None:
    if os.getpid() == owner:  # a forked child must not end its parent's ranks
        with uninterrupted():
            processes.stop()
