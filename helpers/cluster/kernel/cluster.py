"""``Cluster``: real MPI ranks that a notebook starts, calls, and always gets rid of."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from helpers.cluster.errors import StartError
from helpers.cluster.kernel import report
from helpers.cluster.kernel.calls import DEFAULT_TIMEOUT, Calls
from helpers.cluster.kernel.progress import AtWork
from helpers.cluster.kernel.uninterrupted import uninterrupted
from helpers.cluster.rank import remote
from helpers.cluster.rank.names import hidden
from helpers.cluster.start.arguments import Wishes, module_names, positive, whole_number
from helpers.cluster.start.forked import (
    VARIABLE,
    ForkedProcesses,
    remember_not_to_fork_here,
    way_here,
    why_not_to_fork_here,
)
from helpers.cluster.start.forkserver.handle import CannotFork
from helpers.cluster.start.network import Network
from helpers.cluster.start.processes import Processes

if TYPE_CHECKING:
    import ipyparallel


MAX_RANKS = 64  # on one machine; a rank takes about 80 MB before it imports anything


class Cluster(Calls):
    """``n`` MPI ranks, each a Python process that keeps its variables between calls.

    Parameters
    ----------
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
        super().__init__()
        limit = MAX_RANKS if launcher in ("mpi", "spawn", "mpiexec") else 100_000
        self.n = whole_number("n", n, limit)
        self.threads = whole_number("threads", threads, 4096)
        self.start_timeout = positive("start_timeout", start_timeout)
        self.network = network
        self._at_work = AtWork()
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
            self._begin(_launched(way, self.n, self.threads, profile, wishes))
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
    def running(self) -> bool:  # type: ignore[override]
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


def _launched(way: str, n: int, threads: int, profile: str | None, wishes: Wishes) -> Processes:
    """Return the processes of ``"mpiexec"``, ``"slurm"``, ``"ssh"`` or ipyparallel's launcher."""
    if way == "slurm":
        from helpers.cluster.start.slurm.processes import SlurmProcesses

        return SlurmProcesses(n, threads, profile, wishes)
    if way == "ssh":
        from helpers.cluster.start.ssh import SshProcesses

        return SshProcesses(n, threads, profile, wishes)
    if way == "mpiexec":
        from helpers.cluster.start.guarded import LocalProcesses

        return LocalProcesses(n, threads, profile)
    from helpers.cluster.start.launch import LaunchedProcesses

    return LaunchedProcesses(n, way, profile, threads)


def _stop(processes: Processes, owner: int) -> None:
    if os.getpid() == owner:  # a forked child must not end its parent's ranks
        with uninterrupted():
            processes.stop()
